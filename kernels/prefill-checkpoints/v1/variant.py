"""prefill-v6 with a cut at each checkpoint: the state at the end of a segment is one, and goes out from registers.

Each segment has EVERY tokens. Where checkpoints lie far apart, a sequence has fewer segments than a GPU has SMs for.
"""

from gdnbench import CudaKernel, CudaLaunch, Params, Shape, TensorMap, TensorSpec, Workload

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
HEAD = 128  # elements of a key or value head
THREADS = 512
ROWS = 16  # of states that a block composes
MOST_CUTS = 1024  # of a sequence
TRANSITION = 128 * 128 // 2 + 128 * 128 + 128 + 32  # fp32 that the struct Transition takes
COMPOSE_THREADS = 5 * 32
BLOCK_BYTES = 231264  # what the kernel's struct FusedMemory takes; those of the other launches take less


def _chunks(shape: Shape) -> list[int]:
    return [-(-length // CHUNK) for length in shape.lengths]


def _cuts(shape: Shape) -> int:
    """Of all sequences, but for the ends of these."""
    return sum(max(count - 1, 0) // (shape.EVERY // CHUNK) for count in _chunks(shape))


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences; one without tokens has one."""
    return sum(max(-(-count // (shape.EVERY // CHUNK)), 1) for count in _chunks(shape))


def check(workload: Workload) -> str:
    """A block has all rows of a head's state, and places for the cuts of a sequence."""
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    most = max(workload.lengths) // workload.EVERY
    return f"a sequence has {most} checkpoints, more than {MOST_CUTS}" if most > MOST_CUTS else ""


kernel = CudaKernel(
    name="prefill-checkpoints-v1",
    target="sm_90a",
    check=check,
    scratch=(
        TensorSpec("fates", ("CHECKPOINTS", "HV"), "int32"),
        TensorSpec("transitions", ("CHECKPOINTS", "HV", TRANSITION), "fp32"),
        TensorSpec("begun", ("CHECKPOINTS", "HV", "V", "K"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_checkpoints_transitions",
            grid=lambda shape, p: (2, max(_cuts(shape), 1), shape.HV),
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
            ),
        ),
        CudaLaunch(
            entry="gdn_checkpoints_compose",
            grid=lambda shape, p: (shape.V // ROWS, shape.HV, len(shape.lengths)),
            block=lambda shape, p: COMPOSE_THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=("cu_seqlens", "fates", "transitions", "begun"),
            begins_early=True,
        ),
        CudaLaunch(
            entry="gdn_checkpoints",
            grid=lambda shape, p: (shape.HV, _segments(shape, p)),
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
                "checkpoint_cu_starts",
                "scale",
                "output",
                "new_state",
                "checkpoints",
                "begun",
                "N",
            ),
            begins_early=True,
        ),
    ),
)
