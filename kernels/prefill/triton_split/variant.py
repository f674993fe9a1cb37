"""prefill-triton with the outputs in a launch of their own, all chunks at once: the scan only keeps states and U."""

from gdnbench import Param, Shape, TensorSpec, TritonKernel, TritonLaunch

CHUNK = 64


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


kernel = TritonKernel(
    name="prefill-triton-split",
    params={
        # One sequence of 8 heads takes 64 of an H200's 132 SMs at 16 rows a program, and tl.dot has no smaller tile.
        "BV": Param(default=16, choices=(16, 32, 64, 128), doc="state rows per program of the scan"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the scan; fewer have no wgmma"),
        # Triton waits for a chunk's tensors right after it asked for them if there are 2 stages: 3 are the first that
        # load while the scan computes.
        "STAGES": Param(default=3, choices=(1, 2, 3, 4), doc="chunks in shared memory in the scan"),
        "PROLOGUE_WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the prologue"),
        "PRODUCTS": Param(
            default="tf32", choices=("bf16", "tf32", "tf32x3"), doc="arithmetic that inverts I + A within a chunk"
        ),
        "OUTPUT_BV": Param(default=64, choices=(16, 32, 64, 128), doc="columns of the output per program"),
        "OUTPUT_WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the outputs"),
    },
    scratch=(
        TensorSpec("w", ("T", "HV", "V"), "bf16"),
        TensorSpec("y", ("T", "HV", "K"), "bf16"),
        TensorSpec("decays", ("HV", "T"), "fp32"),
        TensorSpec("begun", ("CHUNKS", "HV", "K", "V"), "bf16"),
        TensorSpec("u", ("T", "HV", "V"), "bf16"),
    ),
    launches=(
        TritonLaunch(
            entry="prologue",
            grid=lambda shape, p: (_chunks(shape), shape.HV),
            warps=lambda shape, p: p.PROLOGUE_WARPS,
        ),
        TritonLaunch(
            entry="states",
            grid=lambda shape, p: (shape.V // p.BV, len(shape.lengths) * shape.HV),
            warps=lambda shape, p: p.WARPS,
            stages=lambda shape, p: p.STAGES,
        ),
        TritonLaunch(
            entry="outputs",
            grid=lambda shape, p: (_chunks(shape), shape.HV, shape.V // p.OUTPUT_BV),
            warps=lambda shape, p: p.OUTPUT_WARPS,
        ),
    ),
)
