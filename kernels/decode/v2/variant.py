"""Four warps per block share k and q through shared memory; ROWS rows of state a warp in registers, as in v1."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v2",
    entry="gdn_decode_v2",
    params={"ROWS": Param(default=32, choices=(4, 8, 16, 32), doc="state rows per warp, held in registers")},
    presets={"decode-v2b": {"ROWS": 16}, "decode-v2c": {"ROWS": 8}},
    grid=lambda shape, p: (shape.V // (4 * p.ROWS), shape.B * shape.HV),
    block=lambda shape, p: 4 * 32,
    invariant=("batch", "order", "rerun"),
)
