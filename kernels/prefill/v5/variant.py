"""v4 for heads that remember, too: a first launch works out what each segment makes of any state.

Where a head forgets within a segment, the state comes from as many chunks before it as matter, as in v4.
"""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

CHUNK = 64
THREADS = 512
ROWS = 64  # of states that a block composes
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
TRANSITION_BYTES = 193440  # what the kernel's struct TransitionMemory takes
COMPOSE_BYTES = 3 * 67584 + 3 * 8  # and ComposeMemory, without the decays
BLOCK_BYTES = 231264  # and FusedMemory


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences, as the kernel cuts them."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    size = -(-sum(chunks) // max(params.BLOCKS // shape.HV, 1))
    return sum(max(-(-count // size), 1) for count in chunks)


kernel = CudaKernel(
    name="prefill-v5",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 16, 32, 64, 128, 256, 512, 1024),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
    },
    scratch=(
        TensorSpec("transitions", ("BLOCKS", TRANSITION), "fp32"),
        TensorSpec("decays", ("BLOCKS",), "fp32"),
        TensorSpec("begun", ("BLOCKS", "V", "K"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_transitions",
            grid=lambda shape, p: (2, shape.HV, _segments(shape, p)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: TRANSITION_BYTES,
            arguments=("k", "v", "A_log", "dt_bias", "a", "b", "cu_seqlens", "transitions", "decays", "N", "CHUNKS"),
        ),
        CudaLaunch(
            entry="gdn_prefill_compose",
            grid=lambda shape, p: (shape.V // ROWS, shape.HV, len(shape.lengths)),
            block=lambda shape, p: 128,
            shared_bytes=lambda shape, p: COMPOSE_BYTES + 4 * max(p.BLOCKS // shape.HV, 1),
            arguments=("state", "cu_seqlens", "transitions", "decays", "begun", "CHUNKS"),
        ),
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (1, shape.HV, _segments(shape, p)),
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
                "N",
                "CHUNKS",
            ),
        ),
    ),
)
