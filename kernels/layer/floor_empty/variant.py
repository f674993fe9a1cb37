"""Floor: an empty kernel of as many blocks as layer-v1 has where two value heads share a query head, in no clusters."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="layer-floor-empty",
    entry="gdn_layer_floor_empty",
    params={"WARPS": Param(default=4, choices=(4, 8), doc="warps per block, as in layer-v1")},
    grid=lambda shape, p: (shape.B * shape.HV * 4,),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
