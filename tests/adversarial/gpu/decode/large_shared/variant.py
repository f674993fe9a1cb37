from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-large-shared",
    entry="large",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
    shared_bytes=lambda workload, p: 96 << 10,
)
