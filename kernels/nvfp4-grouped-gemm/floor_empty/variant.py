"""Floor: an empty kernel, a block for some columns of a group. What launching alone costs."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="nvfp4-grouped-gemm-floor-empty",
    entry="nvfp4_grouped_gemm_floor_empty",
    params={"COLUMNS": Param(default=64, choices=(16, 32, 64, 128), doc="columns of C a block")},
    grid=lambda shape, p: (-(-shape.N // p.COLUMNS), len(shape.rows)),
    block=lambda shape, p: 128,
    floor="empty",
)
