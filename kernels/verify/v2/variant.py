"""All tokens at once: the first state is multiplied with every key and query, and what tokens do to each other is small."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="verify-v2",
    entry="gdn_verify_v2",
    params={
        "TILE": Param(default=16, choices=(16, 32), doc="rows per block, copied at once"),
        "WARPS": Param(default=4, choices=(2, 4), doc="warps per block"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.TILE,),
    block=lambda shape, p: 32 * p.WARPS,
)
