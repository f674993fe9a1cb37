"""Floor: an empty kernel on prologue-v1's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="prologue-floor-empty",
    entry="gdn_prologue_floor_empty",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block, as in prologue-v1")},
    grid=lambda shape, p: (-(-(2 * shape.HQ + shape.HV) // p.WARPS), shape.B),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
