"""Floor: an empty kernel of as many blocks as kda-layer-v2 has of heads of 128 at B=1, in no clusters."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="kda-layer-floor-empty",
    entry="kda_layer_floor_empty",
    params={"WARPS": Param(default=8, choices=(4, 8), doc="warps per block, as in kda-layer-v2 at B=1")},
    grid=lambda shape, p: (shape.B * shape.H * 2,),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
