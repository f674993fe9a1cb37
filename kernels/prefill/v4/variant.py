"""One launch: each block prepares the chunks of its segment itself, a chunk ahead of the state.

A segment's first state comes from as many chunks before it as are not forgotten.
"""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
ROWS = 128  # of the state in a block


def _chunks(shape: Shape) -> int:
    return sum(-(-length // CHUNK) for length in shape.lengths)


def _shared_bytes(shape: Shape, params: Params) -> int:
    """What the kernel's struct FusedMemory takes."""
    outputs = 2 * CHUNK * max(shape.K, ROWS + 8)
    operands = 2 * CHUNK * (4 * shape.K + 3 * CHUNK + 2 * ROWS) + 2 * -(-outputs // 1024) * 1024
    handed = 2 * ROWS * (shape.K + CHUNK) + 2 * 1024
    gates = 4 * 4 * (5 * CHUNK + 6 * 16 + 4) + 2 * 4 * 2 * CHUNK
    coupling = 2 * 10 * 512 + 4 * (2 * 8 * 12 * 4 + 16 * 16)
    return operands + handed + gates + coupling + 4 * 16 + 8 * 20 + 64


def _segments(shape: Shape, params: Params) -> int:
    """Of all sequences, as the kernel cuts them."""
    most = max(params.BLOCKS * ROWS // (shape.HV * shape.V), 1)
    size = -(-_chunks(shape) // most)
    return sum(max(-(-length // (size * CHUNK)), 1) for length in shape.lengths)


kernel = CudaKernel(
    name="prefill-v4",
    target="sm_90a",
    params={
        "BLOCKS": Param(
            default=128,
            choices=(1, 64, 128, 256, 512, 1024),
            doc="blocks that sequences are cut for, not counting the last segment of each; 1 leaves them whole",
        ),
    },
    launches=(
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (shape.V // ROWS, shape.HV, _segments(shape, p)),
            block=lambda shape, p: 512,
            shared_bytes=_shared_bytes,
            arguments=(
                TensorMap("q", box=BOX),
                TensorMap("k", box=BOX),
                TensorMap("v", box=BOX),
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "scale",
                "output",
                "new_state",
                "N",
                "CHUNKS",
            ),
        ),
    ),
    invariant=("order", "rerun"),
)
