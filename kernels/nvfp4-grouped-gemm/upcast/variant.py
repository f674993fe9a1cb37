"""Widened to fp16 in registers, exactly, for Hopper's tensor cores: a tile of a group a program."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="nvfp4-grouped-gemm-upcast",
    entry="nvfp4_grouped_gemm_upcast",
    params={
        "BM": Param(default=64, choices=(16, 32, 64, 128), doc="rows of a tile"),
        "BN": Param(default=64, choices=(64, 128), doc="columns of a tile"),
        "BK": Param(default=128, choices=(64, 128, 256), doc="columns of A and B at once"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per program"),
        "STAGES": Param(default=3, choices=(1, 2, 3, 4), doc="of BK columns that are loaded ahead"),
    },
    grid=lambda shape, p: (-(-shape.N // p.BN), sum(-(-rows // p.BM) for rows in shape.rows)),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
