"""A tile of a group a program, by tl.dot_scaled: sm_100's tensor cores take e2m1 and its scales as they are."""

from gdnbench import Param, TritonKernel

kernel = TritonKernel(
    name="nvfp4-grouped-gemm-scaled",
    entry="nvfp4_grouped_gemm_scaled",
    params={
        "BM": Param(default=128, choices=(128,), doc="rows of a tile"),
        "BN": Param(default=64, choices=(32, 64, 128, 256), doc="columns of a tile"),
        "BK": Param(default=256, choices=(128, 256), doc="columns of A and B at once"),
        "WARPS": Param(default=4, choices=(4, 8), doc="warps per program"),
        "STAGES": Param(default=4, choices=(1, 2, 3, 4, 5), doc="of BK columns that are loaded ahead"),
    },
    grid=lambda shape, p: (-(-shape.N // p.BN), sum(-(-rows // p.BM) for rows in shape.rows)),
    warps=lambda shape, p: p.WARPS,
    stages=lambda shape, p: p.STAGES,
    since="sm_100",
)
