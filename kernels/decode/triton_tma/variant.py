"""decode-triton with the state moved by TMA: a program loops over tiles of BV rows, loads ahead of the arithmetic.

Each program makes its own descriptors, which costs it a write to global memory and a fence before its first load.
Below compute capability 9.0 Triton turns them into plain loads and stores.
"""

from gdnbench import Param, Shape, TritonKernel

kernel = TritonKernel(
    name="decode-triton-tma",
    entry="gdn_decode_tma",
    params={
        "BV": Param(default=8, choices=(2, 4, 8, 16, 32, 64, 128), doc="state rows per tile"),
        "TILES": Param(default=2, choices=(1, 2, 4, 8, 16), doc="tiles per program, one after the other"),
        "WARPS": Param(default=4, choices=(1, 2, 4, 8, 16), doc="warps per program"),
        "STAGES": Param(default=2, choices=(1, 2, 3, 4), doc="tiles in flight"),
        "WS": Param(
            default=0,
            choices=(0, 1),
            doc="1: loads have warps of their own on sm_100, WARPS is 4 or more; sm_90 only loses its pipeline",
        ),
    },
    presets={"decode-triton-ws": {"TILES": 4, "STAGES": 3, "WS": 1}},
    # On an NVIDIA H200: results/evidence/20261121-182434-h200-decode-sweep-tma.
    by_shape={
        Shape(B=1): {"BV": 8, "TILES": 1, "WARPS": 8},
        Shape(B=8): {"BV": 16, "TILES": 1, "WARPS": 8},
        Shape(B=64): {"BV": 32, "TILES": 4, "WARPS": 8},
    },
    grid=lambda shape, p: (shape.V // (p.TILES * p.BV), shape.B * shape.HV),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
