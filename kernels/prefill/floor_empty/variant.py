"""Floor: an empty kernel, a block for every 8 rows of every state. What launching alone costs."""

from gdnbench import CudaKernel, Param

ROWS = 8  # of a block of prefill-recurrent

kernel = CudaKernel(
    name="prefill-floor-empty",
    entry="gdn_prefill_floor_empty",
    params={"WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block")},
    grid=lambda shape, p: (shape.V // ROWS, shape.HV, len(shape.lengths)),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
