from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-value-cache-cuda",
    entry="value_cache",
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
)
