"""Floor: reads all of a and its scales and writes c, which takes an exclusive or of each row. The speed of light."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="nvfp4-gemv-floor-read",
    entry="nvfp4_gemv_floor_read",
    params={
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, a row each"),
        "EACH": Param(default=8, choices=(1, 2, 4, 8, 16), doc="times 16 bytes a lane, all loaded before any is used"),
    },
    grid=lambda shape, p: (-(-shape.L * shape.M // p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
