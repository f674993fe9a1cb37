from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-wrong-cuda",
    entry="wrong",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
)
