"""One block per head, a thread holds a whole V-row of 128 floats in registers; k and q broadcast, no shuffles."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-rowreg",
    entry="gdn_decode_rowreg",
    params={"WARPS": Param(default=4, choices=(2, 4), doc="warps per block; 2 give each thread two rows, which spill")},
    presets={"decode-rowreg-w2": {"WARPS": 2}},
    grid=lambda shape, p: (shape.B * shape.HV,),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
