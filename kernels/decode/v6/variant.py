"""v4 with the state staged in shared memory by cp.async, under way while the gates are computed."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="decode-v6",
    entry="gdn_decode_v6",
    params={"WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block, one V-row each")},
    grid=lambda shape, p: (shape.V // p.WARPS, shape.B * shape.HV),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
