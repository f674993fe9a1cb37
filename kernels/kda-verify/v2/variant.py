"""verify-v2 with a decay a channel: the first state meets all keys and queries, times their decays, in one pass."""

from gdnbench import CudaKernel, Param, Shape


def lanes(shape: Shape) -> int:
    """Lanes that share a row by its loads of 16 bytes."""
    return 8 if shape.K * shape.STATE % (8 * 16 * 8) == 0 else 4


kernel = CudaKernel(
    name="kda-verify-v2",
    entry="kda_verify_v2",
    params={
        "TILE": Param(default=32, choices=(16, 32, 64), doc="rows per block, copied at once"),
        "MOST_WARPS": Param(
            default=4, choices=(2, 4), doc="warps per block; fewer where a tile's rows are shared by few"
        ),
    },
    grid=lambda shape, p: (shape.B * shape.H * shape.V // p.TILE,),
    block=lambda shape, p: min(32 * p.MOST_WARPS, p.TILE * lanes(shape)),
    invariant=("batch", "order", "append", "rerun"),
)
