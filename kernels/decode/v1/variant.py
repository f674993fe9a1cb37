"""One warp per block, K split over the lanes, BV rows of state in registers, shuffle reductions."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v1",
    entry="gdn_decode_v1",
    params={"BV": Param(default=8, choices=(1, 2, 4, 8, 16, 32), doc="state rows per warp, held in registers")},
    presets={"decode-v1b": {"BV": 16}, "decode-v1c": {"BV": 4}, "decode-v1d": {"BV": 2}},
    grid=lambda shape, p: (shape.V // p.BV, shape.B * shape.HV),
    block=lambda shape, p: 32,
    invariant=("batch", "order", "rerun"),
)
