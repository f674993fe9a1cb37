"""As lint-c1-bad, without its mistake."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c1-good",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M // 256),),
    block=lambda workload, p: 256,
)
