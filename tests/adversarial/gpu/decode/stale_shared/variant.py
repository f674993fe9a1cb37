from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-stale-shared",
    entry="stale",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
    shared_bytes=lambda workload, p: 256 * 16,
)
