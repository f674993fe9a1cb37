"""Floor: an empty kernel on v4's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-floor-empty",
    entry="gdn_decode_floor_empty",
    params={"WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, as in decode-v4")},
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
