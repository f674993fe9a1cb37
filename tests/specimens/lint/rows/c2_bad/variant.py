"""A barrier that half of the threads miss."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c2-bad",
    entry="rows",
    grid=lambda workload, p: (workload.M,),
    block=lambda workload, p: 128,
)
