"""v8 both ways: one bulk copy brings a block's tile of the state, and one takes it back."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v10",
    entry="gdn_decode_v10",
    params={
        "TILE": Param(default=16, choices=(8, 16, 32, 64), doc="rows per block, copied at once"),
        "WARPS": Param(default=4, choices=(1, 2, 4), doc="warps per block"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.TILE,),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
