"""Floor: an empty kernel, a block for every segment and head. What one launch costs."""

from gdnbench import CudaKernel, Param, Shape


def _segments(shape: Shape) -> int:
    return sum(max(-(-length // shape.EVERY), 1) for length in shape.lengths)


kernel = CudaKernel(
    name="prefill-checkpoints-floor-empty",
    entry="gdn_checkpoints_floor_empty",
    params={"WARPS": Param(default=16, choices=(4, 8, 16), doc="warps per block, as in prefill-checkpoints-v1")},
    grid=lambda shape, p: (shape.HV, _segments(shape)),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
