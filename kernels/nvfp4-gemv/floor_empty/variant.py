"""Floor: an empty kernel on nvfp4-gemv-triton's grid. What launching alone costs; no kernel of it can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="nvfp4-gemv-floor-empty",
    entry="nvfp4_gemv_floor_empty",
    params={"ROWS": Param(default=4, choices=(1, 2, 4, 8, 16), doc="rows per block")},
    grid=lambda shape, p: (-(-shape.M // p.ROWS), shape.L),
    block=lambda shape, p: 128,
    floor="empty",
)
