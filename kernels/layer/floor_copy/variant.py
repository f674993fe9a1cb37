"""Floor: copies the states and last inputs of the batch's slots, no arithmetic. The speed of light."""

from gdnbench import CudaKernel, Param, Params, Shape


def blocks_a_head(shape: Shape, p: Params) -> int:
    """Each lane of a block loads and stores EACH times 16 bytes."""
    return -(-shape.V * shape.K // (4 * 32 * p.WARPS * p.EACH))


kernel = CudaKernel(
    name="layer-floor-copy",
    entry="gdn_layer_floor_copy",
    params={
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block"),
        "EACH": Param(default=2, choices=(1, 2, 4), doc="times 16 bytes a lane, all loaded before any is stored"),
    },
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.HV * blocks_a_head(shape, p),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
