"""A warp a query or key head, or so many values: four channels a lane, convolved in registers, normed by shuffles."""

from gdnbench import CudaKernel, Param, Shape


def warps(shape: Shape) -> int:
    """Of a sequence: one a query or key head, those of values, which hold as many channels, and those of gates."""
    channels = 128 * -(-shape.K // 128)
    return 2 * shape.HQ + -(-shape.HV * shape.V // channels) + -(-shape.HV // 32)


kernel = CudaKernel(
    name="prologue-v1",
    entry="gdn_prologue_v1",
    params={"WARPS": Param(default=2, choices=(1, 2, 4, 8), doc="warps per block")},
    in_place={"new_conv_pool": "conv_pool"},
    grid=lambda shape, p: (-(-warps(shape) // p.WARPS), shape.B),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
