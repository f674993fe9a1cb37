"""verify-v1 over slots: a row of the state stays in registers, and goes to each token's slot as it is then."""

from gdnbench import CudaKernel, Param, Params, Shape


def lanes(shape: Shape, p: Params) -> int:
    """Lanes that share a row: half as many as asked for where its loads of 16 bytes do not share out evenly."""
    loads = shape.K * shape.STATE // (8 * 16)
    return p.MOST_LANES if loads % p.MOST_LANES == 0 else p.MOST_LANES // 2


kernel = CudaKernel(
    name="verify-rollback-v1",
    entry="gdn_verify_rollback_v1",
    params={
        "MOST_LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state, or half of them"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    in_place={"new_pool": "pool"},
    # For sm_90 8 lanes spill 96 bytes a thread at T=6 and 424 at T=8, 16 none.
    by_shape={Shape(T=4): {"MOST_LANES": 8}, Shape(T=6): {"MOST_LANES": 16}, Shape(T=8): {"MOST_LANES": 16}},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V * lanes(shape, p) // (32 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
)
