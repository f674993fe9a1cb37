"""Some rows a program, unpacked in registers: a code's bits, moved, are those of an fp16 2^14 times smaller."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="nvfp4-gemv-triton",
    entry="nvfp4_gemv",
    params={
        "BM": Param(default=4, choices=(1, 2, 4, 8, 16), doc="rows per program"),
        "BK": Param(default=2048, choices=(256, 512, 1024, 2048, 4096), doc="columns at once"),
        "WARPS": Param(default=4, choices=(1, 2, 4, 8), doc="warps per program"),
        "STAGES": Param(default=1, choices=(1, 2, 3, 4), doc="of BK columns that are loaded ahead"),
    },
    grid=lambda shape, p: (-(-shape.M // p.BM), shape.L),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
