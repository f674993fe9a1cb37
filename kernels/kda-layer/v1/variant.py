"""One launch: a cluster holds a head, and sums of squares cross its shared memory."""

from gdnbench import CudaKernel, Param, Params, Shape, Workload


def check(workload: Workload) -> str:
    """What the kernel cannot do; empty where it can."""
    if workload.K in (64, 128):
        return ""
    return f"heads have 64 or 128 elements, not {workload.K}"


def blocks(shape: Shape, p: Params) -> int:
    """Of a head: no more than have rows for all of their threads, which share a row by eight."""
    count, rows = p.MOST_BLOCKS, 4 * p.WARPS
    while count > 1 and shape.V % (count * rows) != 0:
        count //= 2
    return count


kernel = CudaKernel(
    name="kda-layer-v1",
    entry="kda_layer_v1",
    params={
        "WARPS": Param(default=8, choices=(4, 8), doc="warps per block"),
        "MOST_BLOCKS": Param(
            default=2, choices=(1, 2, 4, 8), doc="blocks of a head; fewer where these have rows for no more"
        ),
    },
    check=check,
    since="sm_90",
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.H * blocks(shape, p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
