"""prefill-triton with long sequences in segments: what each makes of any state first, then scans of all at once."""

from gdnbench import Param, Params, Shape, TensorSpec, TritonKernel, TritonLaunch

CHUNK = 64


def _segments(shape: Shape, params: Params) -> list[int]:
    """The segments of each sequence, as the kernel's `segment_tokens` cuts it."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    segment = -(-sum(chunks) // params.SEGMENTS)
    return [-(-count // segment) for count in chunks]


def _transitions(shape: Shape, params: Params) -> int:
    return sum(count - 1 for count in _segments(shape, params) if count)


kernel = TritonKernel(
    name="prefill-triton-segments",
    params={
        # A number of segments, not of chunks in one: it sizes the scratch memory, whatever the lengths. At 8 heads 8
        # segments of one sequence are 224 programs of the transitions, two on an SM, and 128 of the scan, one on an SM.
        "SEGMENTS": Param(
            default=8,
            choices=(2, 4, 8, 16, 32, 64, 128),
            doc="segments at most, not counting each sequence's last; a segment has 1/SEGMENTS of all chunks",
        ),
        "BT": Param(default=64, choices=(16, 32, 64, 128), doc="rows of a segment's B and M per program"),
        "TRANSITION_WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the transitions"),
        "TRANSITION_STAGES": Param(default=2, choices=(1, 2, 3, 4), doc="chunks in shared memory in the transitions"),
        "COMPOSE_BV": Param(default=16, choices=(16, 32, 64, 128), doc="state rows per program where segments compose"),
        "COMPOSE_WARPS": Param(default=4, choices=(4, 8), doc="warps per program there"),
        "COMPOSE_STAGES": Param(default=3, choices=(1, 2, 3, 4), doc="segments in shared memory there"),
        "BV": Param(default=64, choices=(16, 32, 64, 128), doc="state rows per program of the scan"),
        "WARPS": Param(default=8, choices=(4, 8), doc="warps per program of the scan; fewer than 4 have no wgmma"),
        # Triton waits for a chunk's tensors right after it asked for them if there are 2 stages: 3 are the first that
        # load while the scan computes.
        "STAGES": Param(default=3, choices=(1, 2, 3, 4), doc="chunks in shared memory in the scan"),
        "PROLOGUE_WARPS": Param(default=4, choices=(4, 8), doc="warps per program of the prologue"),
        "PRODUCTS": Param(
            default="tf32", choices=("bf16", "tf32", "tf32x3"), doc="arithmetic that inverts I + A within a chunk"
        ),
    },
    scratch=(
        TensorSpec("w", ("T", "HV", "V"), "bf16"),
        TensorSpec("y", ("T", "HV", "K"), "bf16"),
        TensorSpec("qk", ("T", "HV", CHUNK), "bf16"),
        TensorSpec("decays", ("HV", "T"), "fp32"),
        TensorSpec("kept", ("SEGMENTS", "HV"), "fp32"),
        TensorSpec("turned", ("SEGMENTS", "HV", "K", "K"), "bf16"),
        TensorSpec("added", ("SEGMENTS", "HV", "K", "V"), "fp32"),
        TensorSpec("begun", ("SEGMENTS", "HV", "K", "V"), "fp32"),
    ),
    launches=(
        TritonLaunch(
            entry="prologue",
            grid=lambda shape, p: (sum(-(-length // CHUNK) for length in shape.lengths), shape.HV),
            warps=lambda shape, p: p.PROLOGUE_WARPS,
        ),
        TritonLaunch(
            entry="transitions",
            grid=lambda shape, p: ((shape.V + shape.K) // p.BT, shape.HV, max(_transitions(shape, p), 1)),
            warps=lambda shape, p: p.TRANSITION_WARPS,
            stages=lambda shape, p: p.TRANSITION_STAGES,
        ),
        TritonLaunch(
            entry="compose",
            grid=lambda shape, p: (shape.V // p.COMPOSE_BV, len(shape.lengths) * shape.HV),
            warps=lambda shape, p: p.COMPOSE_WARPS,
            stages=lambda shape, p: p.COMPOSE_STAGES,
        ),
        TritonLaunch(
            entry="scan",
            grid=lambda shape, p: (shape.V // p.BV, shape.HV, sum(_segments(shape, p))),
            warps=lambda shape, p: p.WARPS,
            stages=lambda shape, p: p.STAGES,
        ),
    ),
)
