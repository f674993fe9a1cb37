"""The state in registers from the first token to the last, and one reduction over lanes for several tokens."""

from gdnbench import CudaKernel, Param, Params


def _rows(p: Params) -> int:
    return p.ROWS * p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="prefill-recurrent",
    entry="gdn_prefill_recurrent",
    params={
        "TOKENS": Param(default=4, choices=(1, 2, 4, 8), doc="tokens of a step, which take one reduction"),
        "LANES": Param(default=16, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "ROWS": Param(default=1, choices=(1, 2, 4), doc="rows of each group of lanes, held in registers"),
        "WARPS": Param(default=4, choices=(2, 4), doc="warps per block that hold rows"),
        "PRODUCERS": Param(default=4, choices=(1, 2, 4), doc="warps per block that prepare steps, one in turn each"),
    },
    grid=lambda shape, p: (shape.V // _rows(p), shape.HV, len(shape.lengths)),
    block=lambda shape, p: 32 * (p.WARPS + p.PRODUCERS),
)
