"""prefill-recurrent's idea in CuTe DSL: the same steps, warps and barriers, written as layouts and vector copies."""

from gdnbench import CudaLaunch, CuteKernel, Param, Params, Workload

ARGUMENTS = (
    *("q", "k", "v", "state", "A_log", "dt_bias", "a", "b", "cu_seqlens", "scale", "output", "new_state"),
    *("T", "N"),
)


def _rows(p: Params) -> int:
    return p.ROWS * p.WARPS * 32 // p.LANES


def _shared_bytes(shape: Workload, p: Params) -> int:
    floats = p.TOKENS * (2 * shape.K + _rows(p) + 2 * p.TOKENS + 4)
    return max(2 * p.PRODUCERS, 4) * (4 * floats + 16)  # a slot has two barriers


kernel = CuteKernel(
    name="prefill-cute",
    params={
        "TOKENS": Param(default=4, choices=(1, 2, 4, 8), doc="tokens of a step, which take one reduction"),
        "LANES": Param(default=16, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "ROWS": Param(default=1, choices=(1, 2, 4), doc="rows of each group of lanes, held in registers"),
        "WARPS": Param(default=4, choices=(2, 4), doc="warps per block that hold rows"),
        "PRODUCERS": Param(default=4, choices=(1, 2, 4), doc="warps per block that prepare steps, one in turn each"),
    },
    launches=(
        CudaLaunch(
            entry="gdn_prefill_cute",
            grid=lambda shape, p: (shape.V // _rows(p), shape.HV, len(shape.lengths)),
            block=lambda _shape, p: 32 * (p.WARPS + p.PRODUCERS),
            shared_bytes=_shared_bytes,
            arguments=ARGUMENTS,
        ),
    ),
    since="sm_90",
)
