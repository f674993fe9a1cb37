"""Floor: an empty kernel, a block for some columns of C. What launching alone costs; no kernel of it can be faster."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="nvfp4-dual-gemm-floor-empty",
    entry="nvfp4_dual_gemm_floor_empty",
    params={"COLUMNS": Param(default=64, choices=(16, 32, 64, 128), doc="columns of C a block")},
    grid=lambda shape, p: (-(-shape.N // p.COLUMNS),),
    block=lambda shape, p: 128,
    floor="empty",
)
