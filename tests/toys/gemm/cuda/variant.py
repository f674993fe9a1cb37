"""An element a thread."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="gemm-cuda",
    entry="element",
    params={"THREADS": Param(default=64, choices=(64, 128), doc="threads per block")},
    grid=lambda workload, p: (-(-workload.M * workload.N // p.THREADS),),
    block=lambda workload, p: p.THREADS,
)
