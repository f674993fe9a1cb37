"""One launch: blocks that prepare chunks beside blocks that carry states, with what is prepared in the L2 between."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec, Workload

CHUNK = 64
HEAD = 128  # elements of a key
ALIKE = 2 * (3 * CHUNK * HEAD + CHUNK * CHUNK) + 4 * HEAD  # bytes of a chunk that all rows of the state take
READY = ALIKE // 2 + CHUNK * HEAD  # bf16 that the kernel's struct AllReady takes
ROWS = 64  # of the state in a block
BLOCK_BYTES = 113664  # what the struct ChunkMemory takes, which is larger than CarryMemory


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels, and warps tiles of values."""
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


def heads(shape: Shape, params: Params) -> int:
    """Heads that are taken side by side."""
    groups = -(-shape.H // params.MOST_HEADS)
    return -(-shape.H // groups)


def blocks(shape: Shape, params: Params) -> int:
    """All that run at once: a block for each chunk at the most prepares."""
    chunks = sum(-(-length // CHUNK) for length in shape.lengths)
    carrying = heads(shape, params) * shape.V // ROWS
    return carrying + min(params.BLOCKS - carrying, chunks * shape.H)


kernel = CudaKernel(
    name="kda-prefill-v2",
    target="sm_90a",
    params={
        "AHEAD": Param(default=1, choices=(0, 1), doc="whether a block asks the L2 for its next chunk's tokens"),
        "BLOCKS": Param(default=264, choices=(132, 200, 232, 264), doc="blocks that run at once, two on an SM"),
        "MOST_HEADS": Param(default=32, choices=(16, 32, 48), doc="heads that are taken side by side at the most"),
        "PLACES": Param(default=8, choices=(2, 4, 8, 12, 16), doc="chunks of a head on their way"),
    },
    check=check,
    scratch=(TensorSpec("ready", ("MOST_HEADS", "PLACES", READY), "bf16"),),
    launches=(
        CudaLaunch(
            entry="kda_prefill",
            grid=lambda shape, p: (blocks(shape, p),),
            block=lambda shape, p: 512,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *("q", "k", "v", "g", "b", "A_log", "dt_bias", "state", "cu_seqlens", "scale", "lower_bound"),
                *("output", "new_state", "ready", "N", "CHUNKS"),
            ),
        ),
    ),
    invariant=("batch", "order", "chunking", "rerun"),
)
