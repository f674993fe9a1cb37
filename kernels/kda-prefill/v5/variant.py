"""One launch: SMs that carry a head's state, beside SMs that prepare chunks for them, without values."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec, Workload

CHUNK = 64
HEAD = 128  # elements of a key
BOUNDED = 1
PREPARED = 2 * (3 * CHUNK * HEAD + 2 * CHUNK * CHUNK) + 1024  # bytes of the kernel's struct Prepared
TEAMS = 2  # of a block that prepares
BLOCK_BYTES = 231424  # what two of the struct TeamMemory take, which are larger than CarryMemory


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels; the products of sixteen decays have reciprocals in bf16."""
    if workload.GATE != BOUNDED:
        return "its gate has a bound; kda-prefill-v1 takes softplus, too"
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


def heads(shape: Shape, params: Params) -> int:
    """Heads that are taken side by side."""
    groups = -(-shape.H // params.MOST_HEADS)
    return -(-shape.H // groups)


def blocks(shape: Shape, params: Params) -> int:
    """All that run at once: a team for each chunk at the most prepares."""
    chunks = sum(-(-length // CHUNK) for length in shape.lengths)
    carrying = heads(shape, params)
    return carrying + min(params.BLOCKS - carrying, -(-chunks * shape.H // TEAMS))


kernel = CudaKernel(
    name="kda-prefill-v5",
    target="sm_90a",
    params={
        "BLOCKS": Param(default=132, choices=(66, 100, 116, 132), doc="blocks that run at once, one on an SM"),
        "MOST_HEADS": Param(default=32, choices=(16, 24, 32, 48), doc="heads that are taken side by side at the most"),
        "PLACES": Param(default=8, choices=(2, 4, 8, 12, 16), doc="chunks of a head on their way"),
    },
    check=check,
    scratch=(TensorSpec("ready", ("MOST_HEADS", "PLACES", PREPARED // 2), "bf16"),),
    launches=(
        CudaLaunch(
            entry="kda_prefill",
            grid=lambda shape, p: (blocks(shape, p),),
            block=lambda shape, p: 512,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *("q", "k", "b"),
                TensorMap("g", box=(CHUNK, 1, HEAD // 2), swizzle=0),
                TensorMap("v", box=(CHUNK, 1, HEAD // 2)),
                *("A_log", "dt_bias", "state", "cu_seqlens", "scale", "lower_bound"),
                *("output", "new_state", "ready", "N", "CHUNKS"),
            ),
        ),
    ),
    invariant=("batch", "order", "chunking", "rerun"),
)
