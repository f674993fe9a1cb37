"""Rows in registers or tiles by tensor cores, whichever is faster; some warps find what rows need while these come."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

WARP = 32
TILE_ROWS = 16  # of a warp
FEW_BYTES = 256
FEWEST = 32  # rows of a block, where a head's do not share out otherwise
LAST, EACH, NONE = 0, 1, 2  # of KEEP


def check(workload: Workload) -> str:
    """Lanes share rows of these sizes evenly."""
    if workload.K not in (64, 128) or workload.V % FEWEST:
        return f"K={workload.K} is not 64 or 128, or V={workload.V} no multiple of {FEWEST}"
    return ""


def rows(shape: Shape, p: Params) -> int:
    """Rows of a block."""
    return p.MOST_ROWS if shape.V % p.MOST_ROWS == 0 else FEWEST


def row_warps(shape: Shape, p: Params) -> int:
    """Warps of a block that have rows."""
    return rows(shape, p) // TILE_ROWS if p.TENSOR_CORES else p.WARPS


def shared_bytes(shape: Shape, p: Params) -> int:
    """Rows of the state, where they are not in registers, their w, and what finders leave for them."""
    T, K = shape.T, shape.K
    of_state = T * 16 * (K + 16)  # keys and queries in parts
    kept = 4 * K * {LAST: T + 1, EACH: 2 * T, NONE: 0}[shape.KEEP]
    sums = K // p.CHANNELS // WARP * -(-T * (T + 2) // WARP) * 4 * WARP
    factors = 4 * T * (T + 4)
    tile = rows(shape, p) * (K * shape.STATE // 8 + 4 * T) if p.TENSOR_CORES else 0
    return of_state + kept + sums + factors + tile + FEW_BYTES


kernel = CudaKernel(
    name="kda-verify-v3",
    entry="kda_verify_v3",
    params={
        "TENSOR_CORES": Param(default=1, choices=(0, 1), doc="0: rows in registers; 1: tiles, and products of them"),
        "MOST_ROWS": Param(default=64, choices=(16, 32, 64, 128), doc="rows per block, or 32"),
        "WARPS": Param(default=8, choices=(4, 8), doc="warps per block that have rows, where these are in registers"),
        "CHANNELS": Param(default=2, choices=(1, 2), doc="channels of a thread that finds what rows need"),
    },
    since="sm_90",
    check=check,
    # On an NVIDIA H200 and an H100 at T=4, of what was tried there.
    by_shape={
        **{
            Shape(B=1, KEEP=keep, STATE=state): {"TENSOR_CORES": 0, "MOST_ROWS": 32, "CHANNELS": 1}
            for keep in (LAST, EACH, NONE)
            for state in (16, 32)
            if (keep, state) != (NONE, 16)
        },
        **{  # fewer threads leave them enough registers
            Shape(B=1, T=8, KEEP=keep, STATE=state): {"TENSOR_CORES": 0, "MOST_ROWS": 16, "WARPS": 4, "CHANNELS": 1}
            for keep in (LAST, NONE)
            for state in (16, 32)
        },
        Shape(B=1, KEEP=NONE, STATE=16): {},  # fewer bytes, and nothing is stored: products count
        Shape(B=8): {},
    },
    invariant=("order", "append", "rerun"),
    grid=lambda shape, p: (shape.B * shape.H * shape.V // rows(shape, p),),
    block=lambda shape, p: shape.K // p.CHANNELS + WARP * row_warps(shape, p),
    shared_bytes=shared_bytes,
)
