"""v9 that may begin before the launch in front of it has ended, and asks for its state meanwhile."""

from gdnbench import CudaKernel, Param, Params


def _rows(p: Params) -> int:
    return p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="decode-v9-pdl",
    entry="gdn_decode_v9_pdl",
    params={
        "LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
)
