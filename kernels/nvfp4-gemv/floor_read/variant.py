"""Floor: reads all of a and its scales and writes c, which takes an exclusive or of each row. The speed of light."""

from gdnbench import CudaKernel, Param, Shape

kernel = CudaKernel(
    name="nvfp4-gemv-floor-read",
    entry="nvfp4_gemv_floor_read",
    params={
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, a row each"),
        "EACH": Param(default=8, choices=(1, 2, 4, 8, 16), doc="times 16 bytes a lane, all loaded before any is used"),
    },
    # As many loads at once as a lane has of a row; a run tries each of them, and smaller blocks.
    by_shape={
        Shape(M=7168, K=16384, L=1): {"EACH": 16},
        Shape(M=4096, K=7168, L=8): {"EACH": 8, "WARPS": 4},
        Shape(M=7168, K=2048, L=4): {"EACH": 2},
    },
    grid=lambda shape, p: (-(-shape.L * shape.M // p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
