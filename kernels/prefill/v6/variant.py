"""v4 for heads that remember, too: two launches before it find the states at the beginnings of segments.

The launches overlap: where a head forgets soon, its outputs wait for neither of those before.
"""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
THREADS = 512
ROWS = 16  # of states that a block composes
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
COMPOSE_THREADS = 5 * 32
# What the kernel's struct FusedMemory takes. The launches before that need less ask for as much, so that no SM has to
# divide its memory anew.
BLOCK_BYTES = 231264


def _chunks(shape: Shape) -> list[int]:
    return [-(-length // CHUNK) for length in shape.lengths]


def _size(shape: Shape, params: Params) -> int:
    """Chunks of a transition."""
    return max(-(-sum(_chunks(shape)) // (_segments(shape, params) * params.CUTS)), 1)


def _cuts(shape: Shape, params: Params) -> int:
    """Transitions of all sequences, of which the last of each is not counted."""
    return sum(max(count - 1, 0) // _size(shape, params) for count in _chunks(shape))


def _outputs(shape: Shape, params: Params) -> int:
    """Segments of all sequences, as the kernel cuts them."""
    return sum(max(-(-count // (_size(shape, params) * params.CUTS)), 1) for count in _chunks(shape))


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences, not counting the last of each."""
    return max(params.BLOCKS // shape.HV, 1)


kernel = CudaKernel(
    name="prefill-v6",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 4, 16, 64, 96, 120, 128),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
        "CUTS": Param(default=1, choices=(1, 2), doc="transitions in a segment, worked out side by side"),
        "SILENT": Param(
            default=8,
            choices=(4, 8),
            doc="chunks before its segment that a block of outputs goes through at most; where more matter, it waits",
        ),
    },
    scratch=(
        TensorSpec("fates", ("BLOCKS", "CUTS"), "int32"),
        TensorSpec("transitions", ("BLOCKS", "CUTS", TRANSITION), "fp32"),
        TensorSpec("begun", ("BLOCKS", "CUTS", "V", "K"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_transitions",
            grid=lambda shape, p: (2, max(_cuts(shape, p), 1), shape.HV),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                TensorMap("k", box=BOX),
                TensorMap("v", box=BOX),
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "fates",
                "transitions",
                "N",
                "CHUNKS",
            ),
        ),
        CudaLaunch(
            entry="gdn_prefill_compose",
            grid=lambda shape, p: (shape.V // ROWS, shape.HV, len(shape.lengths)),
            block=lambda shape, p: COMPOSE_THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=("cu_seqlens", "fates", "transitions", "begun", "CHUNKS"),
            begins_early=True,
        ),
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (shape.HV, _outputs(shape, p)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                TensorMap("q", box=BOX),
                TensorMap("k", box=BOX),
                TensorMap("v", box=BOX),
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
                "N",
                "CHUNKS",
            ),
            begins_early=True,
        ),
    ),
    invariant=("order", "rerun"),
)
