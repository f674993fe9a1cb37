"""By hand for Hopper: A widened once, B1 and B2 in registers as wgmma's left operand, all steps in equal shares."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorSpec

COLUMNS, TILE = 128, 256  # rows of A, and of B1 and B2, of a tile
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernels' struct Memory takes: stages of A, rows of B1 and B2 with their scales, barriers and more."""
    taken = p.STAGES * (2 * COLUMNS * STEP + 16) + p.AHEAD * TILE * (STEP // 2 + STEP // 16) + 24
    return -(-taken // 1024) * 1024


kernel = CudaKernel(
    name="nvfp4-dual-gemm-v1",
    target="sm_90a",
    # On an NVIDIA H200: results/evidence/20261127-105415-h200-nvfp4-dual-gemm-by-hand.
    params={
        "BLOCKS": Param(default=128, choices=(3, 64, 96, 112, 120, 128, 132), doc="that share all steps equally"),
        "STAGES": Param(default=4, choices=(2, 3, 4), doc="steps of A in shared memory, 128 columns each"),
        "AHEAD": Param(default=2, choices=(2, 3, 4), doc="steps of B1 and B2 in shared memory, all but one under way"),
        "UNROLL": Param(default=4, choices=(1, 4), doc="steps that stand side by side in the loop"),
        "WARPGROUPS": Param(default=2, choices=(2,), doc="of a block, 128 rows each"),
        "ACTIVATION": Param(default="exp", choices=("exp", "tanh"), doc="silu by exp and a quotient, or tanh.approx"),
        "TAIL": Param(
            default="together",
            choices=("together", "decoupled"),
            doc="with UNROLL=1: of a tile's last steps B1's products first, and the gate while B2's run",
        ),
    },
    scratch=(
        TensorSpec("widened", ("M", "K"), "fp16"),
        TensorSpec("parts", ("BLOCKS", 2, TILE, COLUMNS), "fp32"),
        TensorSpec("arrived", ("BLOCKS",), "int32"),
    ),
    launches=(
        CudaLaunch(
            entry="nvfp4_dual_gemm_v1_widen",
            grid=lambda shape, p: (-(-shape.M * shape.K // (32 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "widened", "arrived", "M"),
        ),
        CudaLaunch(
            entry="nvfp4_dual_gemm_v1_multiply",
            grid=lambda shape, p: (p.BLOCKS,),
            block=lambda shape, p: 128 * p.WARPGROUPS,
            shared_bytes=_shared_bytes,
            arguments=("B1", "sfb1", "B2", "sfb2", "widened", "parts", "arrived", "C", "M"),
            begins_early=True,
        ),
    ),
)
