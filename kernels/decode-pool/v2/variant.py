"""decode-v8 over a pool: one bulk copy brings a tile of the state while norms and gates are worked out."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-pool-v2",
    entry="gdn_decode_pool_v2",
    params={
        "TILE": Param(default=16, choices=(8, 16, 32), doc="rows per block, copied at once"),
        "WARPS": Param(default=4, choices=(2, 4), doc="warps per block"),
    },
    in_place={"new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.TILE,),
    block=lambda shape, p: 32 * p.WARPS,
)
