"""Floor: copies the state, no arithmetic, by the way that is fastest at the shape. The speed of light."""

from gdnbench import CudaKernel, Param, Shape

kernel = CudaKernel(
    name="decode-floor-copy",
    entry="gdn_decode_floor_copy",
    params={
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="with ROWS, how many rows a block copies"),
        "ROWS": Param(default=1, choices=(1, 2, 4, 8), doc="rows per warp, all loaded before any is stored"),
        "BULK": Param(default=0, choices=(0, 1), doc="1: one bulk copy through shared memory for all the block's rows"),
    },
    # On an NVIDIA H200: results/evidence/20261121-221410-h200-decode-candidates.
    by_shape={
        Shape(B=1): {"ROWS": 2},
        Shape(B=4): {"BULK": 1},
        Shape(B=32): {"BULK": 1},
        Shape(B=48): {"ROWS": 2, "BULK": 1},
        Shape(B=64): {"BULK": 1},
        Shape(B=128): {"BULK": 0},
        Shape(B=256): {"BULK": 0},
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // (p.WARPS * p.ROWS),),
    block=lambda shape, p: 32 if p.BULK else 32 * p.WARPS,
    floor="copy",
)
