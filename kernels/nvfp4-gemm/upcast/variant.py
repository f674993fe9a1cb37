"""Widened to fp16 in registers, exactly, for Hopper's tensor cores; K in parts, which a second launch adds in order."""

from gdnbench import Param, TensorSpec, TritonKernel, TritonLaunch

ADDED = 1024  # elements of C that a program of the second launch makes

kernel = TritonKernel(
    name="nvfp4-gemm-upcast",
    params={
        "BM": Param(default=128, choices=(16, 32, 64, 128), doc="rows of a tile"),
        "BN": Param(default=128, choices=(64, 128), doc="columns of a tile"),
        "BK": Param(default=64, choices=(64, 128, 256), doc="columns of A and B at once"),
        "SPLIT": Param(default=4, choices=(1, 2, 4, 8, 16), doc="parts of K; of one, nothing is left to add"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per program"),
        "STAGES": Param(default=3, choices=(1, 2, 3, 4), doc="of BK columns that are loaded ahead"),
        "ADDED": Param(default=ADDED, choices=(ADDED,), doc="elements of C that a program adds up"),
    },
    launches=(
        TritonLaunch(
            entry="nvfp4_gemm_parts",
            grid=lambda shape, p: (-(-shape.N // p.BN), -(-shape.M // p.BM), shape.L * p.SPLIT),
            warps=lambda shape, p: p.WARPS,
            stages=lambda shape, p: p.STAGES,
        ),
        TritonLaunch(
            entry="nvfp4_gemm_add",
            grid=lambda shape, p: (-(-shape.L * shape.M * shape.N // ADDED) if p.SPLIT > 1 else 1,),
            warps=lambda shape, p: 4,
        ),
    ),
    scratch=(TensorSpec("parts", ("SPLIT", "L", "M", "N"), "fp32"),),
)
