"""Floor: reads the states of the batch's slots and writes them as often as states are kept, no arithmetic."""

from gdnbench import CudaKernel, Param, Params, Shape


def blocks_a_head(shape: Shape, p: Params) -> int:
    """Each lane of a block loads EACH times 16 bytes."""
    return -(-shape.V * shape.K * shape.STATE // (8 * 16 * 32 * p.WARPS * p.EACH))


kernel = CudaKernel(
    name="kda-verify-floor-copy",
    entry="kda_verify_floor_copy",
    params={
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block"),
        "EACH": Param(default=2, choices=(1, 2, 4), doc="times 16 bytes a lane, all loaded before any is stored"),
        "BULK": Param(default=0, choices=(0, 1), doc="1: one bulk copy through shared memory for all of a block's"),
    },
    by_shape={Shape(B=1): {}, Shape(B=8): {"BULK": 1}},
    grid=lambda shape, p: (shape.B * shape.H * blocks_a_head(shape, p),),
    block=lambda shape, p: 32 if p.BULK else 32 * p.WARPS,
    floor="copy",
)
