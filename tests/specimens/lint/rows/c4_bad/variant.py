"""A pointer that might alias what is written."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c4-bad",
    entry="rows",
    grid=lambda workload, p: (workload.M,),
    block=lambda workload, p: 128,
)
