"""Every load before any use, LANES lanes a row, and one reduction: the output needs no second pass over the state."""

from gdnbench import CudaKernel, Param, Params


def _rows(p: Params) -> int:
    return p.ROWS * p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="decode-v7",
    entry="gdn_decode_v7",
    params={
        "LANES": Param(default=16, choices=(4, 8, 16, 32), doc="lanes that share a row of the state"),
        "ROWS": Param(default=1, choices=(1, 2, 4), doc="rows of each group of lanes, held in registers"),
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per block"),
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
