"""By hand for Hopper: A widened once, B in registers as wgmma's left operand; K in parts, which a last launch adds."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

COLUMNS = 128  # rows of A that a block takes
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch and of the last


def _parts(shape: Shape, p: Params) -> int:
    """Of K: each has a step."""
    return min(p.SPLIT, shape.K // STEP)


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct Memory takes: stages of A, rows of B with their scales, and barriers."""
    taken = p.STAGES * (2 * COLUMNS * STEP + 16) + p.AHEAD * p.BN * (STEP // 2 + STEP // 16)
    return -(-taken // 1024) * 1024


kernel = CudaKernel(
    name="nvfp4-gemm-v1",
    target="sm_90a",
    params={
        "BN": Param(default=256, choices=(128, 256), doc="rows of B of a block, 64 a warpgroup"),
        "SPLIT": Param(default=4, choices=(1, 2, 4, 8), doc="parts of K; of one, nothing is left to add"),
        "STAGES": Param(default=4, choices=(2, 3, 4), doc="steps of A in shared memory, 128 columns each"),
        "AHEAD": Param(default=4, choices=(2, 3, 4), doc="steps of B in shared memory, all but one under way"),
    },
    # On an NVIDIA H200: results/evidence/20261125-032341-h200-nvfp4-gemm-points.
    by_shape={
        Shape(M=128, N=7168, K=16384): {"SPLIT": 4, "AHEAD": 4},
        Shape(M=128, N=4096, K=7168): {"SPLIT": 8, "AHEAD": 3},
        Shape(M=128, N=7168, K=2048): {"SPLIT": 4, "AHEAD": 3},
    },
    scratch=(
        TensorSpec("widened", ("L", "M", "K"), "fp16"),
        TensorSpec("parts", ("SPLIT", "L", "M", "N"), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="nvfp4_gemm_v1_widen",
            grid=lambda shape, p: (-(-shape.L * shape.M * shape.K // (32 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "widened", "M", "L", "rows_sfa"),
        ),
        CudaLaunch(
            entry="nvfp4_gemm_v1_parts",
            grid=lambda shape, p: (-(-shape.N // p.BN) * _parts(shape, p), -(-shape.M // COLUMNS), shape.L),
            block=lambda shape, p: 2 * p.BN,
            shared_bytes=_shared_bytes,
            arguments=("B", "sfb", "widened", "parts", "C", "M", "L", "rows_sfb"),
        ),
        CudaLaunch(
            entry="nvfp4_gemm_v1_add",
            grid=lambda shape, p: (-(-shape.L * shape.M * shape.N // (4 * THREADS)) if _parts(shape, p) > 1 else 1,),
            block=lambda shape, p: THREADS,
            arguments=("parts", "C", "M", "L"),
        ),
    ),
)
