"""Fused and persistent: an SM's program takes tiles that lie in images alike, and keeps their tile of the table."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="fp8-gemm-pos-tma",
    entry="fp8_gemm_pos_tma",
    params={
        "BM": Param(default=128, choices=(64, 128, 256), doc="rows of a tile"),
        "BN": Param(default=128, choices=(64, 128, 256), doc="columns of a tile"),
        "BK": Param(default=128, choices=(64, 128), doc="columns of A and B that a bulk copy brings"),
        "WARPS": Param(default=8, choices=(4, 8), doc="warps per program"),
        "STAGES": Param(default=4, choices=(2, 3, 4, 5), doc="of BK columns in shared memory"),
        "PROGRAMS": Param(default=132, choices=(4, 132, 148, 264, 296), doc="programs: one or two an SM"),
        "KEEP": Param(default=1, choices=(0, 1), doc="1: the table's tile stays in registers while tiles need it"),
        "HALVES": Param(default=0, choices=(0, 1), doc="1, with KEEP=0: C is stored by halves, in half as much memory"),
        "PROMOTE": Param(default=0, choices=(0, 1), doc="1: Hopper's sums of BK columns are added up in fp32"),
    },
    presets={"fp8-gemm-pos-tma-wide": {"BN": 256, "STAGES": 3, "KEEP": 0, "HALVES": 1}},
    grid=lambda shape, p: (min(p.PROGRAMS, -(-shape.M // p.BM) * -(-shape.N // p.BN)),),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
)
