"""By hand for Hopper: a warpgroup brings B and widens A, the others multiply; tiles of all groups in turn."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

COLUMNS = 128  # rows of A of a tile, at most
STEP = 128  # numbers of a row that are multiplied at once
MOST_GROUPS = 128
THREADS = 256  # of the first launch


def _check(shape: Shape) -> str:
    return f"there are {len(shape.rows)} groups, at most {MOST_GROUPS} will do" if len(shape.rows) > MOST_GROUPS else ""


def _tile(p: Params) -> int:
    """Rows of B of a tile."""
    return 64 * p.WARPGROUPS * p.EACH


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct GroupedMemory takes: stages of A, of B and of B's scales, barriers, and groups."""
    scales = max(2048 * shape.TILED, 16 * _tile(p))
    stage = -(-(2 * COLUMNS * STEP + STEP // 2 * _tile(p) + scales) // 1024) * 1024
    return p.STAGES * stage + 1024 + 24 * MOST_GROUPS


kernel = CudaKernel(
    name="nvfp4-grouped-gemm-v2",
    target="sm_90a",
    # On an NVIDIA H200: results/evidence/20261127-173929-h200-nvfp4-grouped-gemm-nvfp4-grouped-gemm-whole-tiles.
    check=_check,
    params={
        "BLOCKS": Param(default=132, choices=(3, 64, 96, 112, 128, 132), doc="that take tiles in turn"),
        "WARPGROUPS": Param(default=2, choices=(2,), doc="of a block that multiply"),
        "EACH": Param(default=1, choices=(1, 2), doc="times 64 rows of B that a warpgroup has"),
        "STAGES": Param(default=4, choices=(2, 3, 4, 5), doc="steps of A and B in shared memory"),
        "IN_PLACE": Param(default=0, choices=(0, 1, 2, 3, 4), doc="steps of A that a block widens itself, its first"),
        "WORDS": Param(default=1, choices=(1,), doc="of each row, whose products are a group that runs as one"),
    },
    scratch=(TensorSpec("widened", ("T", "K"), "fp16"),),
    launches=(
        CudaLaunch(
            entry="nvfp4_grouped_gemm_v2_widen",
            grid=lambda shape, p: (-(-sum(shape.rows) * shape.K // (64 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "ends", "widened", "T", "G"),
        ),
        CudaLaunch(
            entry="nvfp4_grouped_gemm_v2_multiply",
            grid=lambda shape, p: (p.BLOCKS,),
            block=lambda shape, p: 128 * (p.WARPGROUPS + 1),
            shared_bytes=_shared_bytes,
            arguments=(
                "A",
                "sfa",
                "widened",
                "sfb",
                "ends",
                "C",
                "G",
                "rows_sfb",
                TensorMap("B", box=lambda shape, p: (1, _tile(p), STEP // 2), swizzle=64),
                TensorMap("sfb", box=lambda shape, p: (1, _tile(p), 16), swizzle=0),
            ),
            begins_early=True,
        ),
    ),
)
