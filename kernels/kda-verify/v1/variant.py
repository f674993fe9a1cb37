"""verify-v1 with a decay a channel: a row of the state stays in registers while its lanes walk over all tokens."""

from gdnbench import CudaKernel, Param, Params, Shape


def lanes(shape: Shape, p: Params) -> int:
    """Lanes that share a row: half as many as asked for where its loads of 16 bytes do not share out evenly."""
    loads = shape.K * shape.STATE // (8 * 16)
    return p.MOST_LANES if loads % p.MOST_LANES == 0 else p.MOST_LANES // 2


kernel = CudaKernel(
    name="kda-verify-v1",
    entry="kda_verify_v1",
    params={
        "MOST_LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state, or half of them"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    invariant=("batch", "order", "append", "chunking", "rerun"),
    grid=lambda shape, p: (shape.B * shape.H * shape.V * lanes(shape, p) // (32 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
)
