"""Tensor cores by warps: each owns 16 rows of the state, and what one product gives is the next one's operand."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

CHUNK = 64
PREPARED = 2 * CHUNK * CHUNK + 2 * 2 * CHUNK  # bf16 that the struct Prepared takes: two triangles and 128 floats
PREPARE_BYTES = 52 << 10


def _head_groups(shape: Shape) -> int:
    """Blocks that prepare a chunk: two value heads of a key head share one."""
    return shape.HV // (1 if shape.HV // shape.HQ % 2 else 2)


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _stage_bytes(shape: Shape, params: Params) -> int:
    return CHUNK * (2 * shape.K + 16 * params.WARPS) * 2 + 2 * PREPARED


kernel = CudaKernel(
    name="prefill-v1",
    params={
        "WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps of 16 state rows in a block of the scan"),
        "STAGES": Param(default=3, choices=(2, 3, 4), doc="chunks in shared memory in the scan"),
    },
    scratch=(TensorSpec("prepared", ("CHUNKS", "HV", PREPARED), "bf16"),),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_prepare",
            grid=lambda shape, p: (_head_groups(shape), _chunks(shape)),
            block=lambda shape, p: 256,
            shared_bytes=lambda shape, p: PREPARE_BYTES,
            arguments=("q", "k", "A_log", "dt_bias", "a", "b", "cu_seqlens", "scale", "prepared", "N"),
        ),
        CudaLaunch(
            entry="gdn_prefill_scan",
            grid=lambda shape, p: (shape.V // (16 * p.WARPS), shape.HV, len(shape.lengths)),
            block=lambda shape, p: 32 * (p.WARPS + 1),
            shared_bytes=lambda shape, p: p.STAGES * _stage_bytes(shape, p),
            arguments=("q", "k", "v", "state", "cu_seqlens", "scale", "output", "new_state", "prepared"),
        ),
    ),
    invariant=("batch", "order", "append", "chunking", "rerun"),
)
