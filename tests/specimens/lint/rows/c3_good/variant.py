"""As lint-c3-bad, without its mistake."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c3-good",
    entry="rows",
    grid=lambda workload, p: (workload.M,),
    block=lambda workload, p: 128,
)
