"""Rows in registers or tiles by tensor cores, whichever is faster; some warps find what rows need while these come."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

WARP = 32
FEWEST = 32  # rows of a block, where a head's do not share out otherwise


def check(workload: Workload) -> str:
    """Lanes share rows of these sizes evenly."""
    if workload.K not in (64, 128) or workload.V % FEWEST:
        return f"K={workload.K} is not 64 or 128, or V={workload.V} no multiple of {FEWEST}"
    return ""


def rows(shape: Shape, p: Params) -> int:
    """Rows of a block."""
    return p.MOST_ROWS if shape.V % p.MOST_ROWS == 0 else FEWEST


kernel = CudaKernel(
    name="kda-decode-v3",
    entry="kda_decode_v3",
    params={
        "TENSOR_CORES": Param(default=1, choices=(0, 1), doc="0: rows in registers; 1: tiles, and products of them"),
        "MOST_ROWS": Param(default=32, choices=(16, 32), doc="rows per block, or 32"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per block, or of those that have rows"),
        "CHANNELS": Param(default=2, choices=(1, 2), doc="channels of a thread that finds what rows need"),
    },
    since="sm_90",
    check=check,
    # On an NVIDIA H200, of what was tried there.
    by_shape={
        Shape(B=1): {"TENSOR_CORES": 0, "MOST_ROWS": 16, "WARPS": 8},
        Shape(B=8): {"MOST_ROWS": 32},
    },
    in_place={"new_pool": "pool"},
    invariant=("order", "rerun"),
    grid=lambda shape, p: (shape.B * shape.H * shape.V // rows(shape, p),),
    block=lambda shape, p: WARP * p.WARPS + (0 if p.TENSOR_CORES else shape.K // p.CHANNELS),
)
