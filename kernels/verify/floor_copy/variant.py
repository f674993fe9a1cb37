"""Floor: reads the states of the batch's slots and writes them as often as states are kept, no arithmetic."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="verify-floor-copy",
    entry="gdn_verify_floor_copy",
    params={
        "WARPS": Param(default=8, choices=(4, 8, 16), doc="warps per block"),
        "EACH": Param(default=2, choices=(1, 2, 4), doc="times four elements a lane, all loaded before any is stored"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V * shape.K // (4 * 32 * p.WARPS * p.EACH),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
