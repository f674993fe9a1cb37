"""All tokens at once: the first state meets every key and query in one pass, and products of keys do the rest."""

from gdnbench import CudaKernel, Param, Shape


def lanes(shape: Shape) -> int:
    """Lanes that share a row by its loads of 16 bytes."""
    return 8 if shape.K * shape.STATE % (8 * 16 * 8) == 0 else 4


kernel = CudaKernel(
    name="verify-v2",
    entry="gdn_verify_v2",
    params={
        "TILE": Param(default=16, choices=(16, 32), doc="rows per block, copied at once"),
        "MOST_WARPS": Param(
            default=4, choices=(2, 4), doc="warps per block; fewer where a tile's rows are shared by few"
        ),
    },
    # On an NVIDIA H200 at T=4: 20261124-043328-h200-verify-verify-last and …-043407-h200-verify-verify-bf16.
    by_shape={Shape(B=1): {"TILE": 32, "MOST_WARPS": 4}, Shape(B=8): {"TILE": 32, "MOST_WARPS": 2}},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.TILE,),
    block=lambda shape, p: min(32 * p.MOST_WARPS, p.TILE * lanes(shape)),
    invariant=("batch", "order", "append", "rerun"),
)
