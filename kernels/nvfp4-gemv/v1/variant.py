"""Each lane keeps its part of the vector as fp16 in registers, for all rows of its block; sums of 16 are exact."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

_NUMBERS = 32 * 32
"""Whose codes a warp loads at once, 16 bytes a lane."""
_MOST_WARPS = 32


def _split(shape: Shape, p: Params) -> int:
    """Warps that share a row."""
    return -(-shape.K // (_NUMBERS * p.HELD))


def _groups(shape: Shape, p: Params) -> int:
    """Rows that a block works on side by side."""
    return max(1, p.WARPS // _split(shape, p))


def _check(workload: Workload) -> str:
    most = _NUMBERS * _MOST_WARPS
    if most >= workload.K:
        return ""
    return f"K={workload.K} is more than {most}, for which a block has warps"


kernel = CudaKernel(
    name="nvfp4-gemv-v1",
    entry="nvfp4_gemv_v1",
    params={
        "HELD": Param(default=1, choices=(1, 2, 4), doc="times 32 numbers of the vector that a lane keeps"),
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block; as many more as a row takes"),
        "EACH": Param(default=2, choices=(1, 2, 4), doc="rows whose loads a warp issues at once"),
        "STEPS": Param(default=4, choices=(2, 4, 8, 16), doc="times EACH rows, one after the other"),
    },
    check=_check,
    grid=lambda shape, p: (-(-shape.M // (_groups(shape, p) * p.EACH * p.STEPS)), shape.L),
    block=lambda shape, p: 32 * _split(shape, p) * _groups(shape, p),
)
