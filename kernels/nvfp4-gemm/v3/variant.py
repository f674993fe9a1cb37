"""v1's products in equal shares for all SMs, each launch beginning while the one in front of it runs."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

COLUMNS, TILE = 128, 256  # rows of A and of B of a tile
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch and of the last


def _tiles(shape: Shape) -> int:
    return -(-shape.M // COLUMNS) * -(-shape.N // TILE) * shape.L


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernels' struct Memory takes: stages of A, rows of B with their scales, barriers and more."""
    taken = p.STAGES * (2 * COLUMNS * STEP + 16) + p.AHEAD * TILE * (STEP // 2 + STEP // 16) + 24
    return -(-taken // 1024) * 1024


kernel = CudaKernel(
    name="nvfp4-gemm-v3",
    target="sm_90a",
    # On an NVIDIA H200: results/evidence/20261127-105602-h200-nvfp4-gemm-shares.
    params={
        "BLOCKS": Param(default=132, choices=(3, 64, 96, 112, 120, 128, 132), doc="that share all steps equally"),
        "STAGES": Param(default=4, choices=(2, 3, 4), doc="steps of A in shared memory, 128 columns each"),
        "AHEAD": Param(default=2, choices=(2, 3, 4), doc="steps of B in shared memory, all but one under way"),
        "UNROLL": Param(default=4, choices=(1, 4), doc="steps that stand side by side in the loop"),
        "WARPGROUPS": Param(default=2, choices=(2, 4), doc="of a block, 128 rows each, or 64"),
    },
    scratch=(
        TensorSpec("widened", ("L", "M", "K"), "fp16"),
        TensorSpec("parts", ("BLOCKS", 2, TILE, COLUMNS), "fp32"),
    ),
    launches=(
        CudaLaunch(
            entry="nvfp4_gemm_v3_widen",
            grid=lambda shape, p: (-(-shape.L * shape.M * shape.K // (32 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "widened", "M", "L", "rows_sfa"),
        ),
        CudaLaunch(
            entry="nvfp4_gemm_v3_multiply",
            grid=lambda shape, p: (p.BLOCKS,),
            block=lambda shape, p: 128 * p.WARPGROUPS,
            shared_bytes=_shared_bytes,
            arguments=("B", "sfb", "widened", "parts", "C", "M", "L", "rows_sfb"),
            begins_early=True,
        ),
        CudaLaunch(
            entry="nvfp4_gemm_v3_add",
            grid=lambda shape, p: (TILE * COLUMNS // 4 // THREADS * _tiles(shape),),
            block=lambda shape, p: THREADS,
            arguments=("parts", "C", "M", "L"),
            begins_early=True,
        ),
    ),
)
