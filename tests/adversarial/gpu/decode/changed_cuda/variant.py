from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-changed-cuda",
    entry="changed",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
)
