"""prefill-v1 with a decay a channel: ratios of tokens are products of decays, by the halves of ever larger groups."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec, Workload

CHUNK = 64
HEAD = 128  # elements of a key
SHARED = 2 * (3 * CHUNK * HEAD + CHUNK * CHUNK) + 4 * HEAD  # bytes of a chunk that all rows of the state take
READY = SHARED // 2 + CHUNK * HEAD  # bf16 that the kernel's struct AllReady takes
HANDED = 16 * (HEAD + CHUNK) * 2  # of 16 rows: the state and what is written, in bf16
PREPARE_BYTES = 113664  # what the struct ChunkMemory takes


def check(workload: Workload) -> str:
    """Threads have pairs of a key's channels, and warps tiles of values."""
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"K={workload.K}, V={workload.V}: its heads have {HEAD} elements"
    return ""


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _scan_bytes(shape: Shape, params: Params) -> int:
    """Chunks, what is handed on, twice for each warp, and barriers."""
    stage, barriers = SHARED + CHUNK * 16 * params.WARPS * 2, 2 * params.STAGES + 4 * params.WARPS
    return -(-(params.STAGES * stage + params.WARPS * 2 * HANDED + 8 * barriers) // 128) * 128


kernel = CudaKernel(
    name="kda-prefill-v1",
    params={
        "WARPS": Param(default=2, choices=(1, 2, 4), doc="tiles of 16 state rows in a block of the scan"),
        "STAGES": Param(default=3, choices=(2, 3), doc="chunks in shared memory in the scan"),
    },
    check=check,
    scratch=(TensorSpec("ready", ("CHUNKS", "H", READY), "bf16"),),
    launches=(
        CudaLaunch(
            entry="kda_prefill_prepare",
            grid=lambda shape, p: (shape.H, _chunks(shape)),
            block=lambda shape, p: 512,
            shared_bytes=lambda shape, p: PREPARE_BYTES,
            arguments=("q", "k", "v", "g", "b", "A_log", "dt_bias", "cu_seqlens", "scale", "lower_bound", "ready", "N"),
        ),
        CudaLaunch(
            entry="kda_prefill_scan",
            grid=lambda shape, p: (shape.V // (16 * p.WARPS), shape.H, len(shape.lengths)),
            block=lambda shape, p: 32 * (2 * p.WARPS + 1),
            shared_bytes=_scan_bytes,
            arguments=("state", "cu_seqlens", "output", "new_state", "ready"),
        ),
    ),
    invariant=("batch", "order", "chunking", "rerun"),
)
