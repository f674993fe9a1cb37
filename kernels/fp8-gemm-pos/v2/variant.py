"""As fp8-gemm-pos-v1, and a single thread brings A: bulk copies by a tensor map."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

ROWS, BAND = 64, 128  # of a tile; bytes of each row that a stage has
SHARED_BYTES = 227 * 1024  # of Hopper, a block
OTHER_BYTES = 2048
MOST = 768  # columns of A and of B


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct Memory takes."""
    columns = -(-shape.K // BAND) * BAND * p.COLUMNS
    stages = min(12, (SHARED_BYTES - OTHER_BYTES - columns) // (ROWS * BAND))
    return -(-(columns + stages * (ROWS * BAND + 2 * 8)) // 1024) * 1024


def _blocks(shape: Shape, p: Params) -> int:
    """Blocks of the same rows lie side by side, so that they run at once and find these rows in L2."""
    across = -(-shape.N // p.COLUMNS)
    return across * min(max(1, p.BLOCKS // across), -(-shape.M // ROWS))


def _check(shape: Shape) -> str:
    return f"256 columns of B of K={shape.K} do not fit into shared memory, {MOST} do" if shape.K > MOST else ""


kernel = CudaKernel(
    name="fp8-gemm-pos-v2",
    target="sm_90a",
    params={
        "COLUMNS": Param(default=192, choices=(192, 256), doc="of B that a block keeps"),
        "AHEAD": Param(default=0, choices=(0, 1, 2, 4), doc="tiles that A is brought into L2 ahead of the ring"),
        "KEEP": Param(
            default=1,
            choices=(0, 1),
            doc="1: tiles that take the same rows of the table follow each other, which then stay in registers",
        ),
        "BLOCKS": Param(default=132, choices=(1, 114, 132), doc="one an SM"),
    },
    presets={
        "fp8-gemm-pos-v2-wide": {"COLUMNS": 256},
        "fp8-gemm-pos-v2-ahead": {"AHEAD": 2},
        "fp8-gemm-pos-v2-wide-ahead": {"COLUMNS": 256, "AHEAD": 2},
    },
    check=_check,
    launches=(
        CudaLaunch(
            entry="fp8_gemm_pos_v2",
            grid=lambda shape, p: (_blocks(shape, p),),
            block=lambda shape, p: 3 * 128,
            shared_bytes=_shared_bytes,
            arguments=("A", "B", "scale_a", "scale_b", "table", "C", TensorMap("A", box=(ROWS, BAND)), "M"),
        ),
    ),
)
