"""One launch: a block has a head, whose rows tensor cores multiply as they come, or a cluster has it."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload

WARP = 32
TILE_ROWS = 16  # of a warp, where tensor cores multiply them
CHANNELS = 2  # of a thread that finds what rows need, there
FEW_BYTES = 1024


def check(workload: Workload) -> str:
    """What the kernel cannot do; empty where it can."""
    if workload.K in (64, 128):
        return ""
    return f"heads have 64 or 128 elements, not {workload.K}"


def blocks(shape: Shape, p: Params) -> int:
    """Of a head: one with tiles, else no more than have rows for all of their threads, which share a row by eight."""
    count, rows = 1 if p.TENSOR_CORES else p.MOST_BLOCKS, 4 * p.WARPS
    while count > 1 and shape.V % (count * rows) != 0:
        count //= 2
    return count


def threads(shape: Shape, p: Params) -> int:
    """Of a block: those that find what rows need, and those that have rows; in clusters all do both."""
    return shape.K // CHANNELS + WARP * shape.V // TILE_ROWS if p.TENSOR_CORES else WARP * p.WARPS


def shared_bytes(shape: Shape, p: Params) -> int:
    """Tiles, and what all rows need; in clusters it is declared."""
    return shape.V * (shape.K * shape.STATE // 8 + 8) + 32 * shape.K + FEW_BYTES if p.TENSOR_CORES else 0


kernel = CudaKernel(
    name="kda-layer-v2",
    entry="kda_layer_v2",
    params={
        "TENSOR_CORES": Param(default=1, choices=(0, 1), doc="0: clusters; 1: tiles, and products of them"),
        "WARPS": Param(default=8, choices=(4, 8), doc="with clusters: warps per block"),
        "MOST_BLOCKS": Param(
            default=2,
            choices=(1, 2, 4, 8),
            doc="with clusters: blocks of a head; fewer where these have rows for no more",
        ),
    },
    check=check,
    since="sm_90",
    # On an NVIDIA H200 and an H100, of what was tried there.
    by_shape={
        Shape(B=1): {"TENSOR_CORES": 0},
        Shape(B=1, STATE=16): {"TENSOR_CORES": 0, "WARPS": 4},
        Shape(B=8): {"TENSOR_CORES": 0, "MOST_BLOCKS": 1},
        Shape(B=8, STATE=16): {},
        Shape(B=32): {"TENSOR_CORES": 0},
        Shape(B=32, STATE=16): {},
    },
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.H * blocks(shape, p),),
    block=threads,
    shared_bytes=shared_bytes,
    invariant=("order", "rerun"),
)
