"""v9's mathematics in Triton: one reduction instead of two, and gates by a polynomial."""

from gdnbench import Param, Shape, TritonKernel

kernel = TritonKernel(
    name="decode-triton-one",
    entry="gdn_decode_one",
    params={
        "BV": Param(default=8, choices=(2, 4, 8, 16, 32, 64, 128), doc="state rows per program"),
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per program"),
        "STAGES": Param(default=1, choices=(1, 2, 3, 4), doc="pipeline depth; this kernel has no loop to pipeline"),
    },
    # On an NVIDIA H200: results/evidence/20261122-023027-h200-decode-triton-one.
    by_shape={
        Shape(B=1): {"BV": 16, "WARPS": 16},
        Shape(B=2): {"BV": 8, "WARPS": 8},
        Shape(B=8): {"BV": 8, "WARPS": 8},
        Shape(B=16): {"BV": 16, "WARPS": 8},
        Shape(B=256): {"BV": 16, "WARPS": 8},
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.BV,),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
