"""One V-row per warp, state in registers, no shared memory: as many warps in flight as there are rows."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v4",
    entry="gdn_decode_v4",
    params={"WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, one V-row each")},
    presets={"decode-v4b": {"WARPS": 4}},
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
