"""v4 with half of a head's state in a block, which two warpgroups prepare chunks for; blocks that take turns."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
THREADS = 512
ROWS = 64  # of the state in a block
BLOCK_BYTES = 213008  # what the kernel's struct TurnMemory takes


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _grid(shape: Shape, params: Params) -> tuple[int, int]:
    """Along x a block for each segment, if so many run at once; else blocks along y that take whole sequences."""
    parts = shape.HV * shape.V // ROWS
    size = -(-_chunks(shape) // max(params.BLOCKS // parts, 1))
    cut = parts * sum(max(-(-length // (size * CHUNK)), 1) for length in shape.lengths)
    return (cut, 1) if cut <= params.SMS else (1, min(parts * len(shape.lengths), params.SMS))


kernel = CudaKernel(
    name="prefill-v7",
    target="sm_90a",
    params={
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
                "N",
                "CHUNKS",
            ),
        ),
    ),
    invariant=("order", "rerun"),
)
