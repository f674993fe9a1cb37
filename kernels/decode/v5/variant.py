"""v4 with cache hints: the state passes through the caches once, q and k stay."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v5",
    entry="gdn_decode_v5",
    params={
        "HINT": Param(default="ptx", choices=("none", "intrinsics", "ptx"), doc="how hints are given; none is v4"),
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, one V-row each"),
    },
    presets={"decode-v5i": {"HINT": "intrinsics"}},
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
