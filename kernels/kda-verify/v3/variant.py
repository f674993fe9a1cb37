"""Rows in registers or tiles by tensor cores, whichever is faster; some warps find what rows need while these come."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

WARP = 32
FEWEST = 32  # rows of a block, where a head's do not share out otherwise
LAST, EACH, NONE = 0, 1, 2  # of KEEP
WIDE, FEW_TOKENS = 32, 4  # bits of a state; with more tokens 64 rows of it do not fit beside their vectors


def check(workload: Workload) -> str:
    """Lanes share rows of these sizes evenly."""
    if workload.K not in (64, 128) or workload.V % FEWEST:
        return f"K={workload.K} is not 64 or 128, or V={workload.V} no multiple of {FEWEST}"
    return ""


def rows(shape: Shape, p: Params) -> int:
    """Rows of a block."""
    return p.MOST_ROWS if shape.V % p.MOST_ROWS == 0 and (shape.STATE < WIDE or shape.T <= FEW_TOKENS) else FEWEST


kernel = CudaKernel(
    name="kda-verify-v3",
    entry="kda_verify_v3",
    params={
        "TENSOR_CORES": Param(default=1, choices=(0, 1), doc="0: rows in registers; 1: tiles, and products of them"),
        "MOST_ROWS": Param(default=32, choices=(16, 32, 64), doc="rows per block, or 32"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per block, or of those that have rows"),
        "CHANNELS": Param(default=2, choices=(1, 2), doc="channels of a thread that finds what rows need"),
    },
    since="sm_90",
    check=check,
    # On an NVIDIA H200 at T=4, of what was tried there.
    by_shape={
        **{
            Shape(B=1, KEEP=keep, STATE=state): {"TENSOR_CORES": 0, "WARPS": 8, "CHANNELS": 1}
            for keep in (LAST, EACH, NONE)
            for state in (16, 32)
        },
        **{  # fewer threads leave them enough registers
            Shape(B=1, T=8, KEEP=keep, STATE=state): {"TENSOR_CORES": 0, "MOST_ROWS": 16, "CHANNELS": 1}
            for keep in (LAST, NONE)
            for state in (16, 32)
        },
        Shape(B=8, KEEP=LAST, STATE=16): {"MOST_ROWS": 64},
        Shape(B=8, KEEP=EACH, STATE=16): {"MOST_ROWS": 32},
        Shape(B=8, KEEP=NONE, STATE=16): {"MOST_ROWS": 64},
        Shape(B=8, KEEP=LAST, STATE=32): {"MOST_ROWS": 32},
        Shape(B=8, KEEP=EACH, STATE=32): {"MOST_ROWS": 64},
        Shape(B=8, KEEP=NONE, STATE=32): {"MOST_ROWS": 32},
        Shape(B=32, KEEP=LAST, STATE=16): {"MOST_ROWS": 64},
        Shape(B=32, KEEP=EACH, STATE=16): {"MOST_ROWS": 64, "WARPS": 8},
        Shape(B=32, KEEP=NONE, STATE=16): {"MOST_ROWS": 64},
        Shape(B=32, KEEP=LAST, STATE=32): {"MOST_ROWS": 32},
        Shape(B=32, KEEP=EACH, STATE=32): {"MOST_ROWS": 32, "WARPS": 8},
        Shape(B=32, KEEP=NONE, STATE=32): {"MOST_ROWS": 64},
    },
    invariant=("order", "append", "rerun"),
    grid=lambda shape, p: (shape.B * shape.H * shape.V // rows(shape, p),),
    block=lambda shape, p: WARP * p.WARPS + (0 if p.TENSOR_CORES else shape.K // p.CHANNELS),
)
