"""A row of bf16, 2 bytes a load."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c1-bad",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M // 256),),
    block=lambda workload, p: 256,
)
