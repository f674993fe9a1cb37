"""v8, with outputs that the L2 is asked to keep until their lines are whole."""

from gdnbench import CudaKernel, Param, Shape

kernel = CudaKernel(
    name="decode-v11",
    entry="gdn_decode_v11",
    params={
        "TILE": Param(default=16, choices=(8, 16, 32), doc="rows per block, copied at once"),
        "WARPS": Param(default=4, choices=(2, 4), doc="warps per block"),
        "GATHER": Param(default=0, choices=(0, 1), doc="1: the outputs of a block leave by one store"),
        "CLUSTER": Param(default=1, choices=(1, 2), doc="blocks that are launched together, from Hopper on"),
    },
    # As v8.
    by_shape={
        Shape(B=1): {"TILE": 16, "WARPS": 4, "GATHER": 1},
        Shape(B=4): {"TILE": 8, "WARPS": 2, "CLUSTER": 2},
        Shape(B=8): {"TILE": 8, "WARPS": 2, "CLUSTER": 2},
        Shape(B=16): {"TILE": 16, "WARPS": 4, "GATHER": 1, "CLUSTER": 2},
        Shape(B=32): {"TILE": 32, "WARPS": 2, "GATHER": 1},
        Shape(B=64): {"TILE": 32, "WARPS": 2},
        Shape(B=128): {"TILE": 16, "WARPS": 2},
        Shape(B=256): {"TILE": 8, "WARPS": 2},
    },
    grid=lambda shape, p: (shape.B * shape.HV * shape.V // p.TILE,),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
