"""v9's idea in CuTe DSL: the same loads, sums and gates, written as layouts and vector copies."""

from gdnbench import CuteKernel, Param, Params, Shape


def _rows(p: Params) -> int:
    return p.WARPS * 32 // p.LANES


kernel = CuteKernel(
    name="decode-cute",
    entry="gdn_decode_cute",
    params={
        "LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    # v9's, so that the two differ in their language alone.
    by_shape={
        Shape(B=32): {"LANES": 8, "WARPS": 4},
        Shape(B=64): {"LANES": 16, "WARPS": 16},
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("order", "rerun"),
)
