"""A block keeps its columns of B in shared memory: two warpgroups multiply in turn what a third one brings of A."""

from gdnbench import CudaKernel, Param, Params, Shape

ROWS, BAND = 64, 128  # of a tile; bytes of each row that a stage has
SHARED_BYTES = 227 * 1024  # of Hopper, a block
OTHER_BYTES = 2048
MOST = 768  # columns of A and of B


def _columns_bytes(shape: Shape, p: Params) -> int:
    """Of B, as the kernel's struct Memory holds them."""
    return -(-shape.K // BAND) * BAND * p.COLUMNS


def _stages(shape: Shape, p: Params) -> int:
    """Of A's rows, as the kernel counts them."""
    return min(12, (SHARED_BYTES - OTHER_BYTES - _columns_bytes(shape, p)) // (ROWS * BAND))


def _shared_bytes(shape: Shape, p: Params) -> int:
    stages = _stages(shape, p)
    return _columns_bytes(shape, p) + stages * ROWS * BAND + 2 * 8 * stages


def _blocks(shape: Shape, p: Params) -> int:
    """Blocks of the same rows lie side by side, so that they run at once and find these rows in L2."""
    across = -(-shape.N // p.COLUMNS)
    return across * min(max(1, p.BLOCKS // across), -(-shape.M // ROWS))


def _check(shape: Shape) -> str:
    return f"256 columns of B of K={shape.K} do not fit into shared memory, {MOST} do" if shape.K > MOST else ""


kernel = CudaKernel(
    name="fp8-gemm-pos-v1",
    entry="fp8_gemm_pos_v1",
    target="sm_90a",
    params={
        "COLUMNS": Param(default=192, choices=(192, 256), doc="of B that a block keeps"),
        "KEEP": Param(
            default=1,
            choices=(0, 1),
            doc="1: tiles that take the same rows of the table follow each other, which then stay in registers",
        ),
        "BLOCKS": Param(default=132, choices=(1, 114, 132), doc="one an SM"),
    },
    presets={"fp8-gemm-pos-v1-wide": {"COLUMNS": 256}},
    check=_check,
    grid=lambda shape, p: (_blocks(shape, p),),
    block=lambda shape, p: 3 * 128,
    shared_bytes=_shared_bytes,
)
