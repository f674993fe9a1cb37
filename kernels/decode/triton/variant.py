"""A tile of BV state rows per program, gates fused, k-last pointers, no transposes, one pass over the state."""

from gdnbench import Param, Shape, TritonKernel

kernel = TritonKernel(
    name="decode-triton",
    entry="gdn_decode",
    params={
        "BV": Param(default=8, choices=(2, 4, 8, 16, 32, 64, 128), doc="state rows per program"),
        "WARPS": Param(default=8, choices=(1, 2, 4, 8, 16), doc="warps per program"),
        "STAGES": Param(default=1, choices=(1, 2, 3, 4), doc="pipeline depth; this kernel has no loop to pipeline"),
    },
    # On an NVIDIA H200: 20261121-180544-h200-decode-sweep-joint, and for the batch sizes between and beyond
    # 20261121-182329-h200-decode-sweep-batches. STAGES makes no difference.
    by_shape={
        Shape(B=1): {"BV": 16, "WARPS": 16},
        Shape(B=2): {"BV": 8, "WARPS": 8},
        Shape(B=8): {"BV": 8, "WARPS": 8},
        Shape(B=16): {"BV": 16, "WARPS": 8},
        Shape(B=256): {"BV": 16, "WARPS": 8},
    },
    grid=lambda shape, p: (shape.V // p.BV, shape.B * shape.HV),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
