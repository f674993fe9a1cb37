"""More threads than the kernel is compiled for."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="lint-c7-bad",
    entry="rows",
    grid=lambda workload, p: (-(-workload.M * workload.N // 256),),
    block=lambda workload, p: 256,
)
