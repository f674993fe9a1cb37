"""One launch: a cluster holds the value heads of a query head, and sums of squares cross its shared memory."""

from gdnbench import CudaKernel, Param, Params, Shape

MOST_BLOCKS = 8  # of a cluster, on every GPU that has them
LANES = 8


def _blocks_a_head(shape: Shape, p: Params) -> int:
    """As many blocks as fit into a cluster, and no more than have rows for all of their threads."""
    blocks, sharing, rows = 1, shape.HV // shape.HQ, p.WARPS * 32 // LANES
    while 2 * blocks * sharing <= MOST_BLOCKS and shape.V % (2 * blocks * rows) == 0:
        blocks *= 2
    return blocks


kernel = CudaKernel(
    name="layer-v1",
    entry="gdn_layer_v1",
    params={"WARPS": Param(default=4, choices=(4, 8), doc="warps per block")},
    since="sm_90",
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
    grid=lambda shape, p: (shape.B * shape.HV * _blocks_a_head(shape, p),),
    block=lambda shape, p: 32 * p.WARPS,
    invariant=("batch", "order", "rerun"),
)
