"""As many threads as a block may have."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c7-good",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M * workload.N // 1024),),
    block=lambda workload, p: 1024,
)
