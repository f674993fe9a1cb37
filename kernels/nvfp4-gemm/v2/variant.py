"""v1's products in one launch: a block widens A for itself, and the parts of K are a cluster that adds them up."""

from gdnbench import CudaKernel, Param, Params, Shape

COLUMNS, TILE = 128, 256  # rows of A and of B that a block takes
STEP = 128  # numbers of a row that are multiplied at once
STAGES, LEAD = 3, 2


def _parts(shape: Shape, p: Params) -> int:
    """Of K: each has a step."""
    return min(p.SPLIT, shape.K // STEP)


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct Memory takes, or its struct Sums, if that is more."""
    row = STEP // 2 + STEP // 16  # codes and scales
    taken = STAGES * (2 * COLUMNS * STEP + 16) + row * (TILE * p.AHEAD + COLUMNS * (p.AHEAD + LEAD - 1))
    return max(-(-taken // 1024) * 1024, 4 * COLUMNS * (TILE + 4))


kernel = CudaKernel(
    name="nvfp4-gemm-v2",
    entry="nvfp4_gemm_v2_multiply",
    target="sm_90a",
    params={
        "SPLIT": Param(default=4, choices=(1, 2, 4, 8), doc="parts of K, which are a cluster of blocks"),
        "AHEAD": Param(default=2, choices=(2, 3, 4), doc="steps of B in shared memory, all but one under way"),
    },
    grid=lambda shape, p: (-(-shape.N // TILE) * _parts(shape, p), -(-shape.M // COLUMNS), shape.L),
    block=lambda shape, p: 2 * TILE,
    shared_bytes=_shared_bytes,
)
