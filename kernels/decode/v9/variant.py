"""v7 with the shortest way from the last byte of the state to its store."""

from gdnbench import CudaKernel, Param, Params, Shape


def _rows(p: Params) -> int:
    return p.WARPS * 32 // p.LANES


kernel = CudaKernel(
    name="decode-v9",
    entry="gdn_decode_v9",
    params={
        "LANES": Param(default=8, choices=(8, 16, 32), doc="lanes that share a row of the state"),
        "WARPS": Param(default=4, choices=(4, 8, 16), doc="warps per block"),
    },
    # On an NVIDIA H200: results/evidence/20261122-003003-h200-decode-dispatch.
    by_shape={
        Shape(B=32): {"LANES": 8, "WARPS": 4},
        Shape(B=64): {"LANES": 16, "WARPS": 16},
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // _rows(p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("order", "rerun"),
)
