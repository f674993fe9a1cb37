from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-too-much-shared",
    entry="greedy",
    grid=lambda workload, p: (1,),
    block=lambda workload, p: 32,
    shared_bytes=lambda workload, p: 1 << 20,
)
