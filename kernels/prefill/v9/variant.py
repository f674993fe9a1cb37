"""v6 where the first segment of each sequence is taken beside the transitions: its state is known."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
MAPS = (TensorMap("q", box=BOX), TensorMap("k", box=BOX), TensorMap("v", box=BOX))
THREADS = 512
TILE = 16  # rows of states that four warps compose
STAGES = 4  # places of transitions there
PARTS = 4  # of a segment, in which FIRST is
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
# What the kernel's struct FusedMemory takes. The launches that need less ask for as much, so that no SM has to divide
# its memory anew.
BLOCK_BYTES = 231264


def cuts(shape: Shape, params: Params) -> list[int]:
    """Of each sequence, as the kernel's struct FirstCutting has them: after each another segment begins."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    further, parts = params.BLOCKS // shape.HV, params.FIRST if len(chunks) == 1 else max(params.FIRST, PARTS)
    size = -(-PARTS * sum(chunks) // (PARTS * further + parts))
    first = -(-parts * size // PARTS)
    return [-(-max(count - first, 0) // size) for count in chunks]


def _of_first(shape: Shape, params: Params) -> int:
    """Rows of blocks: the first segments, and B and M of all cuts."""
    return len(shape.lengths) + 2 * sum(cuts(shape, params))


def _brings_at_once(shape: Shape, params: Params) -> bool:
    """Whether all transitions of a sequence have places in a block that composes, which then has two tiles of rows."""
    return params.BLOCKS // shape.HV <= STAGES


def _cut_sequences(shape: Shape, params: Params) -> int:
    return sum(count > 0 for count in cuts(shape, params))


kernel = CudaKernel(
    name="prefill-v9",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 4, 16, 64, 96, 120, 128),
            doc="blocks that sequences are cut for, not counting the first segment of each; 1 leaves them whole",
        ),
        "FIRST": Param(
            default=4,
            choices=(2, 3, 4, 5, 6, 8),
            doc="quarters of a segment that the first one of a sequence is long; of several, 4 at least",
        ),
        "SILENT": Param(
            default=8,
            choices=(4, 8),
            doc="chunks before its segment that a block of outputs goes through at most; where more matter, it waits",
        ),
    },
    scratch=(
        TensorSpec("fates", ("BLOCKS",), "int32"),
        TensorSpec("transitions", ("BLOCKS", TRANSITION), "fp32"),
        TensorSpec("begun", ("BLOCKS", "V", "K"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_first",
            grid=lambda shape, p: (shape.HV, _of_first(shape, p)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *MAPS,
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "scale",
                "output",
                "new_state",
                "fates",
                "transitions",
                "N",
                "CHUNKS",
            ),
        ),
        CudaLaunch(
            entry="gdn_prefill_compose",
            grid=lambda shape, p: (shape.V // (TILE * (1 + _brings_at_once(shape, p))), shape.HV, max(_cut_sequences(shape, p), 1)),
            block=lambda shape, p: 256 if _brings_at_once(shape, p) else 160,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=("A_log", "dt_bias", "a", "cu_seqlens", "fates", "transitions", "begun", "N", "CHUNKS"),
            begins_early=True,
        ),
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (shape.HV, max(sum(cuts(shape, p)), 1)),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *MAPS,
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
