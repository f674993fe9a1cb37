"""As verify-v2, for states in bf16 by tensor cores: rows in registers, and no warp waits for another."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

ROWS = 16  # of the state, the most that a warp has
SPAN = 32  # elements of a row that four lanes load at once
BF16 = 16  # bits


def check(workload: Workload) -> str:
    """Tensor cores multiply bf16; the four lanes of a row load 32 of its elements at once."""
    if workload.STATE != BF16:
        return f"tensor cores multiply bf16, and states have {workload.STATE} bits"
    if workload.K % SPAN or workload.V % ROWS:
        return f"K={workload.K} is no multiple of {SPAN}, or V={workload.V} none of {ROWS}"
    return ""


def blocks(shape: Shape, p: Params) -> int:
    """So many warps for each so many rows of each head; one alone where a row's spans do not share out evenly."""
    shares = p.MOST_SHARES if shape.K // SPAN % p.MOST_SHARES == 0 else 1
    return -(-shape.B * shape.HV * (shape.V // p.ROWS) * shares // p.WARPS)


kernel = CudaKernel(
    name="verify-v3",
    entry="gdn_verify_v3",
    params={
        "ROWS": Param(default=16, choices=(8, 16), doc="rows of the state that a warp has"),
        "MOST_SHARES": Param(
            default=1, choices=(1, 2, 4), doc="warps that have the same rows, and store a share of their columns each"
        ),
        "WARPS": Param(default=4, choices=(1, 2, 4, 8), doc="warps per block"),
    },
    since="sm_80",
    check=check,
    # On an NVIDIA H200 at T=4: 20261125-021738-h200-verify-bf16-small and …-021758-h200-verify-bf16-large.
    by_shape={
        Shape(B=1): {"ROWS": 8, "MOST_SHARES": 2},
        Shape(B=8): {"ROWS": 8, "MOST_SHARES": 2},
        Shape(B=32): {"ROWS": 16},
        Shape(B=128, KEEP=0): {"ROWS": 16},
        Shape(B=128, KEEP=1): {"ROWS": 8, "WARPS": 2},
    },
    grid=lambda shape, p: (blocks(shape, p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("order", "append", "rerun"),
)
