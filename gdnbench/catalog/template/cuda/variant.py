"""A row a block, its sum by warp shuffles and shared memory, read twice."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="example-cuda",
    entry="normalise_rows",
    params={"WARPS": Param(default=4, choices=(1, 2, 4, 8), doc="warps of a block")},
    grid=lambda workload, p: (workload.M,),
    block=lambda workload, p: 32 * p.WARPS,
)
