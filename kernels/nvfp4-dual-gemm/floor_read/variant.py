"""Floor: reads all of B1, B2 and their scales and writes C, which takes exclusive ors. What traffic alone takes.

A, which a product reads, too, is left out: every block would read all of it. The bound of a workload is this or the
operations at the GPU's peak.
"""

from gdnbench import CudaKernel, Param, Shape

kernel = CudaKernel(
    name="nvfp4-dual-gemm-floor-read",
    entry="nvfp4_dual_gemm_floor_read",
    params={
        "WARPS": Param(
            default=16, choices=(8, 16, 32), doc="warps per block, a row of B1 and of B2 and a column of C each"
        ),
        "EACH": Param(default=8, choices=(1, 2, 4, 8, 16), doc="times 16 bytes a lane, all loaded before any is used"),
    },
    # As many loads at once as a lane has of a row; a run tries each of them, and smaller blocks.
    by_shape={
        Shape(M=256, N=4096, K=7168): {"EACH": 8},
        Shape(M=256, N=3072, K=4096): {"EACH": 4},
    },
    grid=lambda shape, p: (-(-shape.N // p.WARPS),),
    block=lambda shape, p: 32 * p.WARPS,
    floor="copy",
)
