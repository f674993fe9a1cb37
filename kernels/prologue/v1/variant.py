"""A warp a head: four channels a lane are convolved in registers, normed by shuffles, and shifted where they stand."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="prologue-v1",
    entry="gdn_prologue_v1",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block, each with a head")},
    in_place={"new_conv_pool": "conv_pool"},
    grid=lambda shape, p: (-(-(2 * shape.HQ + shape.HV) // p.WARPS), shape.B),
    block=lambda shape, p: 32 * p.WARPS,
)
