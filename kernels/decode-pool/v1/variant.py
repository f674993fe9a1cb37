"""decode-v9 over a pool: the slot is asked for first, and norms and gates are worked out while the state comes."""

from gdnbench import CudaKernel, Param, Params


def _rows(p: Params) -> int:
    return p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="decode-pool-v1",
    entry="gdn_decode_pool_v1",
    params={
        "LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    in_place={"new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
)
