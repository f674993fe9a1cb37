"""v9 for all layers of a model in one launch, with a barrier of the whole grid between two layers."""

from gdnbench import CudaKernel, Param, Params


def _rows(p: Params) -> int:
    return p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="decode-v9-layers",
    entry="gdn_decode_v9_layers",
    params={
        "LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
)
