"""By hand for Hopper, in one launch: a warpgroup brings B1 and B2 and widens A, the others widen these and multiply."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

COLUMNS = 128  # rows of A that a block takes
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch


def _tile(p: Params) -> int:
    """Rows of B1 and B2 that a block takes."""
    return 64 * p.WARPGROUPS * p.EACH


def _stage(shape: Shape, p: Params) -> int:
    """Bytes of A, widened, of B1 and B2, and of their scales."""
    scales = 4096 if shape.TILED else 16 * _tile(p)
    return -(-(2 * COLUMNS * STEP + STEP // 2 * _tile(p) + scales) // 1024) * 1024


kernel = CudaKernel(
    name="nvfp4-dual-gemm-v2",
    target="sm_90a",
    params={
        "SPLIT": Param(default=2, choices=(1, 2, 3, 4), doc="parts of K, which are a cluster of blocks"),
        "WARPGROUPS": Param(default=2, choices=(2, 3), doc="of a block that multiply"),
        "EACH": Param(default=1, choices=(1, 2), doc="times 64 rows of B1 and B2 that a warpgroup has"),
        "STAGES": Param(default=4, choices=(2, 3, 4), doc="steps of A, B1 and B2 in shared memory"),
        "IN_PLACE": Param(default=2, choices=(0, 1, 2, 3, 4), doc="steps of A that a block widens itself, its first"),
        "WORDS": Param(default=1, choices=(1, 2, 4), doc="of each row, whose products are a group that runs as one"),
    },
    # On an NVIDIA H200: results/evidence/20261127-174033-h200-nvfp4-dual-gemm-nvfp4-dual-gemm-one-ring.
    by_shape={
        Shape(M=m, N=n, K=k, **layout): params
        for (m, n, k), params in {
            (256, 4096, 7168): {"SPLIT": 1},
            (512, 4096, 7168): {"SPLIT": 1, "EACH": 2, "WORDS": 4},
            (256, 3072, 4096): {"SPLIT": 2, "WARPGROUPS": 3},
            (512, 3072, 7168): {"SPLIT": 1, "WARPGROUPS": 3},
        }.items()
        for layout in ({}, {"TILED": 1})
    },
    scratch=(TensorSpec("widened", ("M", "K"), "fp16"),),
    launches=(
        CudaLaunch(
            entry="nvfp4_dual_gemm_v2_widen",
            grid=lambda shape, p: (-(-shape.M * shape.K // (64 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "widened", "M"),
        ),
        CudaLaunch(
            entry="nvfp4_dual_gemm_v2_multiply",
            grid=lambda shape, p: (
                -(-2 * shape.N // _tile(p)) * min(p.SPLIT, shape.K // STEP),
                -(-shape.M // COLUMNS),
            ),
            block=lambda shape, p: 128 * (p.WARPGROUPS + 1),
            shared_bytes=lambda shape, p: p.STAGES * _stage(shape, p) + 1024,
            arguments=(
                "A",
                "sfa",
                "widened",
                "sfb1",
                "sfb2",
                "C",
                "M",
                "rows_sfb",
                TensorMap("B1", box=lambda shape, p: (_tile(p) // 2, STEP // 2), swizzle=64),
                TensorMap("sfb1", box=lambda shape, p: (_tile(p) // 2, 16), swizzle=0),
                TensorMap("B2", box=lambda shape, p: (_tile(p) // 2, STEP // 2), swizzle=64),
                TensorMap("sfb2", box=lambda shape, p: (_tile(p) // 2, 16), swizzle=0),
            ),
            begins_early=True,
        ),
    ),
)
