"""More threads than a block may have."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c7-bad",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M * workload.N // 2048),),
    block=lambda workload, p: 2048,
)
