from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-cuda-syntax-error",
    entry="broken",
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 32,
)
