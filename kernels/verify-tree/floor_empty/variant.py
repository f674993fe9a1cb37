"""Floor: an empty kernel on verify-tree-v1's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="verify-tree-floor-empty",
    entry="gdn_verify_tree_floor_empty",
    params={"WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block, as in verify-tree-v1")},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // (2 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
