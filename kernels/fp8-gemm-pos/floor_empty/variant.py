"""Floor: an empty kernel on fp8-gemm-pos-triton's grid. What launching alone costs; no kernel of it can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="fp8-gemm-pos-floor-empty",
    entry="fp8_gemm_pos_floor_empty",
    params={"TILE": Param(default=128, choices=(64, 128, 256), doc="rows and columns of a tile of C, a block each")},
    grid=lambda shape, p: (-(-shape.M // p.TILE) * -(-shape.N // p.TILE),),
    block=lambda shape, p: 256,
    floor="empty",
)
