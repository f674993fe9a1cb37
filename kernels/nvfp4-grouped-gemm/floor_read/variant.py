"""Floor: reads B of groups that have rows, and its scales, and writes C. What traffic alone takes.

A column of a group in C takes an exclusive or of its row of B. A, which a product reads, too, is left out: every block
would read all of it. The bound of a workload is this or the operations at the GPU's peak.
"""

from gdnbench import CudaKernel, Param, Shape

kernel = CudaKernel(
    name="nvfp4-grouped-gemm-floor-read",
    entry="nvfp4_grouped_gemm_floor_read",
    params={
        "WARPS": Param(default=16, choices=(8, 16, 32), doc="warps per block, a row of B and a column of C each"),
        "EACH": Param(default=4, choices=(1, 2, 4, 8, 16), doc="times 16 bytes a lane, all loaded before any is used"),
    },
    # As many loads at once as a lane has of a row; a run tries each of them, and smaller blocks.
    by_shape={
        Shape(rows=(80, 176, 128, 72, 64, 248, 96, 160), N=4096, K=7168): {"EACH": 8, "WARPS": 8},
        Shape(rows=(192, 320), N=3072, K=4096): {"EACH": 4},
        Shape(rows=(128, 384), N=4096, K=1536): {"EACH": 2},
    },
    grid=lambda shape, p: (-(-shape.N // p.WARPS), len(shape.rows)),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
