"""Fused, a tile of C a program: the table is added to the sums where they are, and C is written once."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="fp8-gemm-pos-triton",
    entry="fp8_gemm_pos",
    params={
        "BM": Param(default=128, choices=(64, 128, 256), doc="rows of a tile"),
        "BN": Param(default=128, choices=(64, 128, 256), doc="columns of a tile"),
        "BK": Param(default=128, choices=(32, 64, 128), doc="columns of A and B that are in shared memory at once"),
        "WARPS": Param(default=8, choices=(4, 8), doc="warps per program"),
        "STAGES": Param(default=3, choices=(1, 2, 3, 4, 5), doc="of BK columns in shared memory"),
    },
    grid=lambda shape, p: (-(-shape.M // p.BM) * -(-shape.N // p.BN),),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
