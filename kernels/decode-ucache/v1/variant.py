"""decode-pool-v1 behind a replay: a row takes in what stands in the ring, and is written at a flush alone."""

from gdnbench import CudaKernel, Param, Params, Shape


def lanes(shape: Shape, p: Params) -> int:
    """Lanes that share a row: half as many as asked for where its loads of 16 bytes do not share out evenly."""
    loads = shape.K * shape.STATE // (8 * 16)
    return p.MOST_LANES if loads % p.MOST_LANES == 0 else p.MOST_LANES // 2


kernel = CudaKernel(
    name="decode-ucache-v1",
    entry="gdn_decode_ucache_v1",
    params={
        "MOST_LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state, or half of them"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    in_place={f"new_{name}": name for name in ("pool", "k_cache", "u_cache", "g_cache")},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V * lanes(shape, p) // (32 * p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
)
