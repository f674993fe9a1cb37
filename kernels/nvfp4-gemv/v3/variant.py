"""v2's products of bytes, on rows that bulk copies bring into a ring of stages in shared memory."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

_NUMBERS = 32 * 32
"""Whose codes a warp loads at once, 16 bytes a lane."""
_MOST_WARPS = 31
"""That share a row; one more asks for rows."""
_MOST_SUMS_BYTES = 24 * 1024
"""A block's, beside the ring."""


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


def _shared_bytes(shape: Shape, p: Params) -> int:
    """The ring, with as many stages as the kernel counts, and an fp32 of each row for each warp that shares it."""
    stage = _groups(shape, p) * p.EACH * (shape.K // 2 + shape.K // 16)
    stages = min(max(p.RING * 1024 // stage, 2), 16)
    return stages * stage + 4 * _split(shape, p) * -(-shape.M // _blocks(shape, p))


def _check(workload: Workload) -> str:
    most = _NUMBERS * _MOST_WARPS
    return f"K={workload.K} is more than {most}, for which a block has warps" if most < workload.K else ""


kernel = CudaKernel(
    name="nvfp4-gemv-v3",
    entry="nvfp4_gemv_v3",
    since="sm_90",
    params={
        "HELD": Param(default=1, choices=(1, 2), doc="times 32 numbers of the vector that a lane keeps"),
        "WARPS": Param(default=16, choices=(4, 8, 16), doc="warps that multiply; as many more as a row takes"),
        "EACH": Param(default=4, choices=(2, 4), doc="rows of a stage that a warp works on"),
        "RING": Param(default=96, choices=(1, 48, 96, 200), doc="KB of rows in shared memory; two stages at least"),
        "BLOCKS": Param(default=132, choices=(1, 132, 264), doc="of all matrices; 132 are one an SM"),
    },
    check=_check,
    grid=lambda shape, p: (_blocks(shape, p), shape.L),
    block=lambda shape, p: 32 * (_split(shape, p) * _groups(shape, p) + 1),
    shared_bytes=_shared_bytes,
)
