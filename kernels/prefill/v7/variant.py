"""v4 with half of a head's state in a block, which two warpgroups prepare chunks for; blocks that take turns."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
VALUE_STAGES = QUERY_STAGES = 2
UNIT = 1024  # where matrices of products begin


def _rows(params: Params) -> int:
    """Of the state in a block."""
    return 128 // params.HALVES


def _preparing(params: Params) -> int:
    """Warpgroups that prepare chunks."""
    return params.PREPARERS if params.HALVES == 2 else 1


def _shared_bytes(shape: Shape, params: Params) -> int:
    """What the kernel's struct TurnMemory takes."""
    rows, row, groups = _rows(params), 2 * shape.K, _preparing(params)
    places, solved = (5, 3) if params.HALVES == 2 else (4, 2)
    queries = -(-max(CHUNK * row, 2 * CHUNK * (rows + 8)) // UNIT) * UNIT
    matrices = places * CHUNK * row + QUERY_STAGES * queries + solved * 2 * CHUNK * CHUNK
    handed = rows * row + 2 * rows * CHUNK + 2 * UNIT
    gates = places * 4 * (5 * CHUNK + 6 * 16 + 4) + groups * 2 * 4 * 2 * CHUNK
    coupling = max(groups, 2) * 10 * 512 + groups * 4 * UNIT
    barriers = 8 * (4 * places + VALUE_STAGES + QUERY_STAGES)
    return matrices + handed + VALUE_STAGES * 2 * CHUNK * rows + gates + coupling + 4 * 20 + 16 + barriers


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _grid(shape: Shape, params: Params) -> tuple[int, int]:
    """Along x a block for each segment, if so many run at once; else blocks along y that take whole sequences."""
    parts = shape.HV * shape.V // _rows(params)
    size = -(-_chunks(shape) // max(params.BLOCKS // parts, 1))
    cut = parts * sum(max(-(-length // (size * CHUNK)), 1) for length in shape.lengths)
    return (cut, 1) if cut <= params.SMS else (1, min(parts * len(shape.lengths), params.SMS))


kernel = CudaKernel(
    name="prefill-v7",
    target="sm_90a",
    params={
        "HALVES": Param(
            default=2,
            choices=(1, 2),
            doc="blocks that share a head's 128 rows of the state; of 64 rows, two warpgroups prepare chunks",
        ),
        "PREPARERS": Param(default=2, choices=(2, 3), doc="warpgroups that prepare chunks, of a block with 64 rows"),
        "SPANS": Param(
            default=2,
            choices=(1, 2),
            doc="parts of a chunk's tokens that go to the state one behind the other, their products overlapping",
        ),
        "READS": Param(
            default=1, choices=(1, 2), doc="products by which they read the state: one for all, or one for each of them"
        ),
        "BLOCKS": Param(
            default=128,
            choices=(1, 64, 128, 256),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
        "SMS": Param(
            default=132,
            choices=(2, 64, 128, 132),
            doc="blocks that run at once: if segments are more, sequences stay whole, and blocks go on to others",
        ),
    },
    launches=(
        CudaLaunch(
            entry="gdn_prefill",
            grid=_grid,
            block=lambda shape, p: 128 * (4 if p.HALVES == 1 else 2 + p.PREPARERS),
            shared_bytes=_shared_bytes,
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
                "N",
                "CHUNKS",
            ),
        ),
    ),
    invariant=("order", "rerun"),
)
