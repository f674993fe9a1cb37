"""A warp a head: what a lane holds stays in registers, and one sum by shuffles is all that lanes tell each other."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="epilogue-v1",
    entry="gdn_epilogue_v1",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block, each with a head")},
    grid=lambda shape, p: (-(-shape.B * shape.HV // p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
