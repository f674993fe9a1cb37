"""Floor: an empty kernel, a block for every 32 rows of every state. What launching alone costs."""

from gdnbench import CudaKernel, Param

ROWS = 32  # of a block of kda-prefill-v1

kernel = CudaKernel(
    name="kda-prefill-floor-empty",
    entry="kda_prefill_floor_empty",
    params={"WARPS": Param(default=4, choices=(1, 2, 4, 8, 16), doc="warps per block")},
    grid=lambda shape, p: (shape.V // ROWS, shape.H, len(shape.lengths)),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
