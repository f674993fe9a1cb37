"""Floor: an empty kernel on verify-rollback-v1's grid. What launching alone costs; none of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="verify-rollback-floor-empty",
    entry="gdn_verify_rollback_floor_empty",
    params={"WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block, as in verify-rollback-v1")},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // (4 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
