"""Floor: an empty kernel on epilogue-v1's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="epilogue-floor-empty",
    entry="gdn_epilogue_floor_empty",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block, as in epilogue-v1")},
    grid=lambda shape, p: (-(-shape.B * shape.HV // p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
