"""Chunks of 64 tokens: what needs no state of all chunks in parallel, then a scan over them by tiles of state rows."""

from gdnbench import Param, Shape, TensorSpec, TritonKernel, TritonLaunch

CHUNK = 64


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


kernel = TritonKernel(
    name="kda-prefill-triton",
    params={
        "BV": Param(default=32, choices=(16, 32, 64, 128), doc="state rows per program of the scan"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the scan; fewer have no wgmma"),
        "STAGES": Param(default=3, choices=(1, 2, 3), doc="chunks in shared memory in the scan"),
        "PROLOGUE_WARPS": Param(default=8, choices=(4, 8), doc="warps per program of the prologue"),
        "PRODUCTS": Param(
            default="tf32", choices=("bf16", "tf32", "tf32x3"), doc="arithmetic that inverts I + A within a chunk"
        ),
    },
    scratch=(
        TensorSpec("w", ("T", "H", "V"), "bf16"),
        TensorSpec("y", ("T", "H", "K"), "bf16"),
        TensorSpec("queries", ("T", "H", "K"), "bf16"),
        TensorSpec("faded", ("T", "H", "K"), "bf16"),
        TensorSpec("products", ("T", "H", CHUNK), "bf16"),
        TensorSpec("whole", ("CHUNKS", "H", "K"), "fp32"),
    ),
    launches=(
        TritonLaunch(
            entry="prologue",
            grid=lambda shape, p: (_chunks(shape), shape.H),
            warps=lambda shape, p: p.PROLOGUE_WARPS,
        ),
        TritonLaunch(
            entry="scan",
            grid=lambda shape, p: (shape.V // p.BV, len(shape.lengths) * shape.H),
            warps=lambda shape, p: p.WARPS,
            stages=lambda shape, p: p.STAGES,
        ),
    ),
)
