"""One launch: blocks that prepare 32 tokens of a head at a time, and carry its whole state, side by side."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, Workload

CHUNK = 64
TOKENS = 32  # of a step
HEAD = 128  # elements of a key
BOUNDED = 1
BLOCK_BYTES = 5 * 42 * 1024 + 2 * 3584 + 256  # what the kernel's struct FusedMemory takes
THREADS = 512


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels; the products of sixteen decays have reciprocals in bf16."""
    if workload.GATE != BOUNDED:
        return "its gate has a bound; kda-prefill-v1 takes softplus, too"
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


def segments(shape: Shape, params: Params) -> int:
    """Of all sequences, each of which has one at least."""
    chunks = [-(-length // CHUNK) for length in shape.lengths]
    size = -(-sum(chunks) // max(params.BLOCKS // shape.H, 1))
    return sum(max(-(-each // size), 1) for each in chunks)


def rows(name: str) -> TensorMap:
    """Of a head's tokens half of the elements."""
    return TensorMap(name, box=(TOKENS, 1, HEAD // 2))


kernel = CudaKernel(
    name="kda-prefill-v6",
    target="sm_90a",
    params={"BLOCKS": Param(default=132, choices=(66, 132), doc="blocks among which heads are shared out")},
    check=check,
    launches=(
        CudaLaunch(
            entry="kda_prefill",
            grid=lambda shape, p: (segments(shape, p) * shape.H,),
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                *(rows("q"), rows("k"), rows("g"), rows("v")),
                *("g", "b", "A_log", "dt_bias", "state", "cu_seqlens", "scale", "lower_bound"),
                *("output", "new_state", rows("output"), "N", "CHUNKS"),
            ),
        ),
    ),
    invariant=("rerun",),
)
