"""v1 with its scan on Hopper's warpgroups, and long sequences in segments (prefill-v2: without).

A segment's first state comes from as many chunks before it as are not forgotten.
"""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

CHUNK = 64
PREPARED = 2 * CHUNK * CHUNK + 2 * 2 * CHUNK  # bf16 that the struct Prepared takes: two triangles and 128 floats
PREPARE_BYTES = 52 << 10


def _head_groups(shape: Shape) -> int:
    """Blocks that prepare a chunk: two value heads of a key head share one."""
    return shape.HV // (1 if shape.HV // shape.HQ % 2 else 2)


def _rows(params: Params) -> int:
    """Of the state in a block of the scan."""
    return 64 * params.GROUPS


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _scan_bytes(shape: Shape, params: Params) -> int:
    """What the kernel's struct ScanMemory takes, whose parts begin at multiples of 1024 and end with two barriers."""
    rows, barriers = _rows(params), 2 * 8
    carried = 2 * CHUNK * (shape.K + CHUNK + rows) + 2 * 4 * CHUNK
    shown = 2 * CHUNK * (shape.K + CHUNK) + 4 * CHUNK
    parts = ((carried, params.STAGES), (shown, 2), (2 * rows * shape.K, 1), (2 * rows * CHUNK, 1))
    return sum(-(-(part + barriers) // 1024) * 1024 * count for part, count in parts)


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences, as the kernel cuts them."""
    most = max(params.BLOCKS * _rows(params) // (shape.HV * shape.V), 1)
    size = -(-_chunks(shape) // most)
    return sum(max(-(-length // (size * CHUNK)), 1) for length in shape.lengths)


kernel = CudaKernel(
    name="prefill-v3",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 64, 128, 256, 512, 1024),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
        "GROUPS": Param(default=1, choices=(1, 2), doc="warpgroups of 64 state rows in a block of the scan"),
        "STAGES": Param(default=3, choices=(2, 3, 4), doc="chunks in shared memory in the scan; 4 fit for one group"),
    },
    presets={"prefill-v2": {"BLOCKS": 1}},
    scratch=(
        TensorSpec("prepared", ("CHUNKS", "HV", PREPARED), "bf16"),
        TensorSpec("loaded", ("CHUNKS", "HQ", 2, CHUNK, "K"), "bf16"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_prepare",
            grid=lambda shape, p: (_head_groups(shape), _chunks(shape)),
            block=lambda shape, p: 256,
            shared_bytes=lambda shape, p: PREPARE_BYTES,
            arguments=("q", "k", "A_log", "dt_bias", "a", "b", "cu_seqlens", "scale", "prepared", "loaded", "N"),
        ),
        CudaLaunch(
            entry="gdn_prefill_scan",
            grid=lambda shape, p: (shape.V // _rows(p), shape.HV, _segments(shape, p)),
            block=lambda shape, p: 512 if p.GROUPS == 2 else 320,
            shared_bytes=_scan_bytes,
            arguments=("v", "state", "cu_seqlens", "scale", "output", "new_state", "prepared", "loaded", "N", "CHUNKS"),
        ),
    ),
    invariant=("order", "rerun"),
)
