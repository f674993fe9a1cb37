"""Floor: an empty kernel on kda-verify-v1's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="kda-verify-floor-empty",
    entry="kda_verify_floor_empty",
    params={"WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block, as in kda-verify-v1")},
    grid=lambda shape, p: (shape.B * shape.H * shape.V // (4 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
