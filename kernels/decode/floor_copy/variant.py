"""Floor: copies the state on v4's grid, no arithmetic. What moving the bytes alone costs: the speed of light."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-floor-copy",
    entry="gdn_decode_floor_copy",
    params={"WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, as in decode-v4")},
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
