"""v1 with its scan on Hopper's warpgroups, which read what all rows share once for 64 of them."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

CHUNK = 64
PREPARED = 20 * 256 + 2 * 2 * CHUNK  # bf16 that the struct Prepared takes: two triangles of ten tiles, and 128 floats
WORKBENCH_BYTES = 50 << 10


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _ring_bytes(shape: Shape, params: Params) -> int:
    stage = 2 * CHUNK * (2 * shape.K + 2 * CHUNK + 64 * params.GROUPS) + 2 * 4 * CHUNK
    return params.STAGES * (stage + 2 * 8)


kernel = CudaKernel(
    name="prefill-v2",
    target="sm_90a",
    params={
        "GROUPS": Param(default=1, choices=(1, 2), doc="warpgroups of 64 state rows in a block of the scan"),
        "STAGES": Param(default=3, choices=(2, 3, 4), doc="chunks in shared memory in the scan; 4 fit for one group"),
    },
    scratch=(TensorSpec("prepared", ("CHUNKS", "HV", PREPARED), "bf16"),),
    launches=(
        CudaLaunch(
            entry="gdn_prefill_prepare",
            grid=lambda shape, p: (shape.HV, _chunks(shape)),
            block=lambda shape, p: 128,
            shared_bytes=lambda shape, p: WORKBENCH_BYTES,
            arguments=("q", "k", "A_log", "dt_bias", "a", "b", "cu_seqlens", "scale", "prepared", "N"),
        ),
        CudaLaunch(
            entry="gdn_prefill_scan",
            grid=lambda shape, p: (shape.V // (64 * p.GROUPS), shape.HV, len(shape.lengths)),
            block=lambda shape, p: 128 * (p.GROUPS + 1),
            shared_bytes=_ring_bytes,
            arguments=("q", "k", "v", "state", "cu_seqlens", "scale", "output", "new_state", "prepared"),
        ),
    ),
)
