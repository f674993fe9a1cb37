"""Four codes are looked up at once as bytes, whose products are integers; many loads are under way in registers."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

_NUMBERS = 32 * 32
"""Whose codes a warp loads at once, 16 bytes a lane."""
_MOST_WARPS = 32
_MOST_SUMS_BYTES = 48 * 1024
"""A block's, which any GPU has without being asked."""


def _split(shape: Shape, p: Params) -> int:
    """Warps that share a row."""
    return -(-shape.K // (_NUMBERS * p.HELD))


def _groups(shape: Shape, p: Params) -> int:
    """Rows that a block works on side by side."""
    return max(1, p.WARPS // _split(shape, p))


def _blocks(shape: Shape, p: Params) -> int:
    """Of a matrix: no more than give each group of warps a row, no fewer than hold the sums of all rows."""
    most, least = shape.M // _groups(shape, p), -(-4 * _split(shape, p) * shape.M // _MOST_SUMS_BYTES)
    return max(min(p.BLOCKS // shape.L, most), least)


def _sums_bytes(shape: Shape, p: Params) -> int:
    """An fp32 of each row for each warp that shares it."""
    return 4 * _split(shape, p) * -(-shape.M // _blocks(shape, p))


def _check(workload: Workload) -> str:
    most = _NUMBERS * _MOST_WARPS
    return f"K={workload.K} is more than {most}, for which a block has warps" if most < workload.K else ""


kernel = CudaKernel(
    name="nvfp4-gemv-v2",
    entry="nvfp4_gemv_v2",
    params={
        "HELD": Param(default=2, choices=(1, 2), doc="times 32 numbers of the vector that a lane keeps"),
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block; as many more as a row takes"),
        "AHEAD": Param(default=4, choices=(4, 6, 8, 12, 16), doc="loads of 16 bytes that a lane has under way"),
        "BLOCKS": Param(default=528, choices=(1, 132, 264, 396, 528, 792), doc="of all matrices; 132 are one an SM"),
    },
    check=_check,
    grid=lambda shape, p: (_blocks(shape, p), shape.L),
    block=lambda shape, p: 32 * _split(shape, p) * _groups(shape, p),
    shared_bytes=_sums_bytes,
)
