"""v6 where first segments of heads that remember are taken beside the transitions: their state is known."""

from typing import NamedTuple

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
MAPS = (TensorMap("q", box=BOX), TensorMap("k", box=BOX), TensorMap("v", box=BOX))
THREADS = 512
TILE = 16  # rows of states that four warps compose
STAGES = 4  # places of transitions there
PARTS = 4  # of a segment, in which FIRST is
WAYS = 2  # to cut a sequence; of each there are no more than BLOCKS cuts and value heads
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
# What the kernel's struct FusedMemory takes. The launches that need less ask for as much, so that no SM has to divide
# its memory anew.
BLOCK_BYTES = 231264


class Segments(NamedTuple):
    """Of a sequence, as the kernel's struct BothCuttings has them, in the way that has more."""

    cuts: int  # after each another segment begins
    rows: int  # of blocks that write outputs in the last launch


def segments(shape: Shape, params: Params) -> list[Segments]:
    """Of each sequence."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    further, parts = params.BLOCKS // shape.HV, params.FIRST if len(chunks) == 1 else max(params.FIRST, PARTS)
    size = -(-PARTS * sum(chunks) // (PARTS * further + parts))
    first = -(-parts * size // PARTS)
    alike = -(-sum(chunks) // max(further, 1))

    def of_sequence(count: int) -> Segments:
        known, others = -(-(count - first) // size), (count - 1) // alike
        return Segments(max(known, others), max(known, others + 1)) if count > first else Segments(0, 1)

    return [of_sequence(count) for count in chunks]


def _cut_sequences(shape: Shape, params: Params) -> int:
    return sum(each.cuts > 0 for each in segments(shape, params))


def _of_first(shape: Shape, params: Params) -> int:
    """Rows of blocks: first segments, and B and M of all cuts; without cuts they have nothing to do."""
    cuts = sum(each.cuts for each in segments(shape, params))
    return len(shape.lengths) + 2 * cuts if cuts else 1


def _brings_at_once(shape: Shape, params: Params) -> bool:
    """Whether all transitions of a sequence have places in a block that composes, which then has two tiles of rows."""
    return params.BLOCKS // shape.HV <= STAGES


kernel = CudaKernel(
    name="prefill-v9",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 4, 16, 64, 96, 120, 128),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
        "FIRST": Param(
            default=4,
            choices=(2, 3, 4, 5, 6, 8),
            doc="quarters of a segment that one beside the transitions is long; of several sequences, 4 at least",
        ),
        "SILENT": Param(
            default=8,
            choices=(4, 8),
            doc="chunks before its segment that a block of outputs goes through at most; where more matter, it waits",
        ),
    },
    scratch=(
        TensorSpec("fates", ("BLOCKS", WAYS), "int32"),
        TensorSpec("transitions", ("BLOCKS", WAYS, TRANSITION), "fp32"),
        TensorSpec("begun", ("BLOCKS", WAYS, "V", "K"), "fp32"),
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
                "fates",
                "transitions",
                "N",
                "CHUNKS",
            ),
        ),
        CudaLaunch(
            entry="gdn_prefill_compose",
            grid=lambda shape, p: (
                shape.V // (TILE * (1 + _brings_at_once(shape, p))),
                shape.HV,
                max(_cut_sequences(shape, p), 1),
            ),
            block=lambda shape, p: 256 if _brings_at_once(shape, p) else 160,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=("A_log", "dt_bias", "a", "cu_seqlens", "fates", "transitions", "begun", "N", "CHUNKS"),
            begins_early=True,
        ),
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (shape.HV, sum(each.rows for each in segments(shape, p))),
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
                "begun",
                "N",
                "CHUNKS",
            ),
            begins_early=True,
        ),
    ),
    invariant=("order", "rerun"),
)
