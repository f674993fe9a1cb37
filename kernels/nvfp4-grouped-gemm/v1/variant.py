"""By hand for Hopper: A widened once, B in registers as wgmma's left operand, all groups' steps in equal shares."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

COLUMNS, TILE = 128, 256  # rows of A and of B of a tile
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernels' struct Memory takes: stages of A, rows of B with their scales, barriers and more."""
    taken = p.STAGES * (2 * COLUMNS * STEP + 16) + p.AHEAD * TILE * (STEP // 2 + STEP // 16) + 24
    return -(-taken // 1024) * 1024


kernel = CudaKernel(
    name="nvfp4-grouped-gemm-v1",
    target="sm_90a",
    params={
        "BLOCKS": Param(default=132, choices=(3, 64, 96, 112, 120, 128, 132), doc="that share all steps equally"),
        "STAGES": Param(default=4, choices=(2, 3, 4), doc="steps of A in shared memory, 128 columns each"),
        "AHEAD": Param(default=3, choices=(2, 3, 4), doc="steps of B in shared memory, all but one under way"),
        "UNROLL": Param(default=1, choices=(1, 4), doc="steps that stand side by side in the loop"),
        "WARPGROUPS": Param(default=2, choices=(2,), doc="of a block, 128 rows each"),
    },
    scratch=(
        TensorSpec("widened", ("T", "K"), "fp16"),
        TensorSpec("parts", ("BLOCKS", 2, TILE, COLUMNS), "fp32"),
        TensorSpec("arrived", ("BLOCKS",), "int32"),
    ),
    launches=(
        CudaLaunch(
            entry="nvfp4_grouped_gemm_v1_widen",
            grid=lambda shape, p: (-(-sum(shape.rows) * shape.K // (32 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "ends", "widened", "arrived", "T"),
        ),
        CudaLaunch(
            entry="nvfp4_grouped_gemm_v1_multiply",
            grid=lambda shape, p: (p.BLOCKS,),
            block=lambda shape, p: 128 * p.WARPGROUPS,
            shared_bytes=_shared_bytes,
            arguments=("B", "sfb", "ends", "widened", "parts", "arrived", "C", "G", "rows_sfb"),
            begins_early=True,
        ),
    ),
)
