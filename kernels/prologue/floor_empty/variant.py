"""Floor: an empty kernel on prologue-v1's grid. What launching alone costs; no kernel of that grid can be faster."""

from gdnbench import CudaKernel, Param, Shape


def warps(shape: Shape) -> int:
    """Of a sequence: one a query or key head, those of values, which hold as many channels, and those of gates."""
    channels = 128 * -(-shape.K // 128)
    return 2 * shape.HQ + -(-shape.HV * shape.V // channels) + -(-shape.HV // 32)


kernel = CudaKernel(
    name="prologue-floor-empty",
    entry="gdn_prologue_floor_empty",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block, as in prologue-v1")},
    grid=lambda shape, p: (-(-warps(shape) // p.WARPS), shape.B),
    block=lambda shape, p: 32 * p.WARPS,
    floor="empty",
)
