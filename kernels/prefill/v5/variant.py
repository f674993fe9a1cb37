"""v4 for heads that remember, too: two launches before it find the states at the beginnings of segments.

Where a head forgets within a segment, the state comes from as many chunks before it as matter, as in v4.
"""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

CHUNK = 64
THREADS = 512
ROWS = 16  # of states that a block composes
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
KNOWN = CHUNK * CHUNK // 2 + 5 * CHUNK + 6 * 16 + 4  # and KnownChunk
TRANSITION_BYTES = 201632  # what the kernel's struct TransitionMemory takes
COMPOSE_BYTES = 4 * 42 * 1024 + 16 * 272 + 4 * 16 * 4 + 4 * 8  # and ComposeMemory, without the decays
BLOCK_BYTES = 231264  # and FusedMemory


def _count(shape: Shape, params: Params, cuts: int = 1) -> int:
    """Segments of all sequences, or transitions, of which a segment has `cuts`, as the kernel cuts them."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    size = -(-sum(chunks) // (_segments(shape, params) * params.CUTS)) * params.CUTS // cuts
    return sum(max(-(-count // size), 1) for count in chunks)


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences, not counting the last of each."""
    return max(params.BLOCKS // shape.HV, 1)


kernel = CudaKernel(
    name="prefill-v5",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 4, 16, 32, 64, 128, 256, 512, 1024),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
        "CUTS": Param(default=1, choices=(1, 2, 4), doc="transitions in a segment, worked out side by side"),
        "KEEPS": Param(default=1, choices=(0, 1), doc="whether outputs take the inverses that transitions leave"),
    },
    scratch=(
        TensorSpec("transitions", ("BLOCKS", "CUTS", TRANSITION), "fp32"),
        TensorSpec("decays", ("BLOCKS", "CUTS"), "fp32"),
        TensorSpec("begun", ("BLOCKS", "CUTS", "V", "K"), "fp32"),
        TensorSpec("known", ("CHUNKS", "HV", KNOWN), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_transitions",
            grid=lambda shape, p: (2, shape.HV, _count(shape, p, p.CUTS)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: TRANSITION_BYTES,
            arguments=(
                "k",
                "v",
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "transitions",
                "decays",
                "known",
                "N",
                "CHUNKS",
            ),
        ),
        CudaLaunch(
            entry="gdn_prefill_compose",
            grid=lambda shape, p: (shape.V // ROWS, shape.HV, len(shape.lengths)),
            block=lambda shape, p: 128,
            shared_bytes=lambda shape, p: COMPOSE_BYTES + 4 * _segments(shape, p) * p.CUTS,
            arguments=("cu_seqlens", "transitions", "decays", "begun", "CHUNKS"),
        ),
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (1, shape.HV, _count(shape, p)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                "q",
                "k",
                "v",
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "scale",
                "output",
                "new_state",
                "begun",
                "decays",
                "known",
                "N",
                "CHUNKS",
            ),
        ),
    ),
)
