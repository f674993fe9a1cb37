"""By hand for Hopper: A widened once, B in registers; K in parts of a cluster, and its last steps by helpers."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap, TensorSpec

COLUMNS = 128  # rows of A that a block takes
STEP = 128  # numbers of a row that are multiplied at once
THREADS = 256  # of the first launch


def _tile(p: Params) -> int:
    """Rows of B that a block takes."""
    return 64 * p.WARPGROUPS * p.EACH


def _stage(shape: Shape, p: Params) -> int:
    """Bytes of A, widened, of B, and of B's scales."""
    scales = 2048 if shape.TILED else 16 * _tile(p)
    return -(-(2 * COLUMNS * STEP + STEP // 2 * _tile(p) + scales) // 1024) * 1024


def _clusters(shape: Shape, p: Params) -> tuple[int, int, int]:
    """Of blocks: those of helpers, those of tiles, and as how many blocks each has a part of K, a step at least."""
    steps = shape.K // STEP
    own = steps - min(p.HELPED, steps // 2) * (p.HELPERS > 0 and steps // 2 >= p.HELP_PARTS)
    return p.HELPERS, -(-shape.N // _tile(p)), min(p.SPLIT, own)


def _grid(shape: Shape, p: Params) -> tuple[int, int, int]:
    helpers, tiles, parts = _clusters(shape, p)
    return (helpers + tiles) * parts, -(-shape.M // COLUMNS), shape.L


def _check(shape: Shape) -> str:
    """A flag a tile lies among those of a matrix's columns."""
    return f"M={shape.M} is more than {8 * COLUMNS}" if shape.M > 8 * COLUMNS else ""


kernel = CudaKernel(
    name="nvfp4-gemm-v4",
    target="sm_90a",
    check=_check,
    params={
        "SPLIT": Param(default=2, choices=(1, 2, 3, 4), doc="parts of K, which are a cluster of blocks"),
        "HELPERS": Param(
            default=0, choices=(0, 2, 10, 32), doc="clusters more, which have the last steps of all tiles"
        ),
        "HELPED": Param(default=3, choices=(3, 15, 26), doc="of a tile, these steps"),
        "HELP_PARTS": Param(default=1, choices=(1, 2), doc="of these steps, each another block's"),
        "WARPGROUPS": Param(default=2, choices=(2,), doc="of a block that multiply"),
        "EACH": Param(default=1, choices=(1, 2), doc="times 64 rows of B that a warpgroup has"),
        "STAGES": Param(default=4, choices=(2, 3, 4, 5), doc="steps of A and B in shared memory"),
        "IN_PLACE": Param(default=0, choices=(0, 1, 2, 3, 4), doc="steps of A that a block widens itself, its first"),
        "WORDS": Param(default=1, choices=(1, 2, 4), doc="of each row, whose products are a group that runs as one"),
    },
    # On an NVIDIA H200: results/evidence/20261127-174003-h200-nvfp4-gemm-nvfp4-gemm-helpers.
    by_shape={
        Shape(M=128, N=n, K=k, **layout): params
        for (n, k), params in {
            (7168, 16384): {"HELPERS": 10, "HELPED": 15},
            (4096, 7168): {"HELPERS": 32, "HELPED": 26, "HELP_PARTS": 2},
            (7168, 2048): {"HELPERS": 0},
        }.items()
        for layout in ({}, {"TILED": 1})
    },
    scratch=(
        TensorSpec("widened", ("L", "M", "K"), "fp16"),
        TensorSpec("sums", ("HELP_PARTS", "L", "M", "N"), "fp32"),
        TensorSpec("flags", ("L", "N"), "int32"),
    ),
    launches=(
        CudaLaunch(
            entry="nvfp4_gemm_v4_widen",
            grid=lambda shape, p: (-(-shape.L * shape.M * shape.K // (64 * THREADS)),),
            block=lambda shape, p: THREADS,
            arguments=("A", "sfa", "widened", "flags", "M", "L", "rows_sfa"),
        ),
        CudaLaunch(
            entry="nvfp4_gemm_v4_multiply",
            grid=_grid,
            block=lambda shape, p: 128 * (p.WARPGROUPS + 1),
            shared_bytes=lambda shape, p: p.STAGES * _stage(shape, p) + 1024,
            arguments=(
                "A",
                "sfa",
                "widened",
                "sfb",
                "sums",
                "flags",
                "C",
                "M",
                "rows_sfa",
                "rows_sfb",
                TensorMap("B", box=lambda shape, p: (1, _tile(p), STEP // 2), swizzle=64),
                TensorMap("sfb", box=lambda shape, p: (1, _tile(p), 16), swizzle=0),
            ),
            begins_early=True,
        ),
    ),
)
