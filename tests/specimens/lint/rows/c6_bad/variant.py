"""More blocks on an SM than their registers allow."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c6-bad",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M // 128),),
    block=lambda workload, p: 128,
)
