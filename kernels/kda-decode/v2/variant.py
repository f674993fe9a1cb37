"""decode-pool-v2 with a decay a channel: one bulk copy brings a tile of the state while decays are worked out."""

from gdnbench import CudaKernel, Param, Shape


def lanes(shape: Shape) -> int:
    """Lanes that share a row by its loads of 16 bytes."""
    return 8 if shape.K * shape.STATE % (8 * 16 * 8) == 0 else 4


kernel = CudaKernel(
    name="kda-decode-v2",
    entry="kda_decode_v2",
    params={
        "TILE": Param(default=16, choices=(8, 16, 32), doc="rows per block, copied at once"),
        "MOST_WARPS": Param(
            default=4, choices=(2, 4), doc="warps per block; fewer where a tile's rows are shared by few"
        ),
        "BULK_STORE": Param(default=0, choices=(0, 1), doc="1: a tile goes back by one bulk copy"),
    },
    # On an NVIDIA H100, fp32: at B=8 all blocks of this form are on the GPU at once.
    by_shape={
        Shape(B=1): {"TILE": 16, "MOST_WARPS": 4},
        Shape(B=8): {"TILE": 32, "MOST_WARPS": 2},
        Shape(B=32): {"TILE": 16, "MOST_WARPS": 4},
    },
    in_place={"new_pool": "pool"},
    invariant=("batch", "order", "rerun"),
    grid=lambda shape, p: (shape.B * shape.H * shape.V // p.TILE,),
    block=lambda shape, p: min(32 * p.MOST_WARPS, p.TILE * lanes(shape)),
)
