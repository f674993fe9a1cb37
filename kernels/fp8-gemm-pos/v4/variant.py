"""As fp8-gemm-pos-v3-banded, and columns of B come by bulk tensor copies, too."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

ROWS, BAND, COLUMNS = 64, 128, 192  # of a tile; bytes of each row that a stage has; of B that a block keeps
SHARED_BYTES = 227 * 1024  # of Hopper, a block
OTHER_BYTES = 2048
MOST = 768  # columns of A and of B


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct Memory takes."""
    columns = -(-shape.K // BAND) * BAND * COLUMNS
    stages = min(12, (SHARED_BYTES - OTHER_BYTES - columns) // (ROWS * BAND))
    return -(-(columns + stages * (ROWS * BAND + 2 * 8)) // 1024) * 1024


def _blocks(shape: Shape, p: Params) -> int:
    """As many groups of rows, of a block for each of B's parts, as the SMs hold, and not more than tiles."""
    across = -(-shape.N // COLUMNS)
    return across * min(max(1, p.BLOCKS // across), -(-shape.M // ROWS))


kernel = CudaKernel(
    name="fp8-gemm-pos-v4",
    target="sm_90a",
    params={
        "FLOATS": Param(default=1, choices=(0, 1), doc="1: the table's rows are kept in fp32"),
        "ORDER": Param(default=1, choices=(0, 1), doc="1: tiles that blocks make at once lie side by side"),
        "APART": Param(
            default=0,
            choices=(0, 1, 2),
            doc="blocks of the same rows: 0 are neighbours, 1 lie as far apart as can be, 2 are every other one",
        ),
        "PAST_L1": Param(default=0, choices=(0, 1), doc="1: C takes no place in the L1"),
        "BLOCKS": Param(default=132, choices=(1, 3, 132), doc="one an SM"),
    },
    check=lambda shape: f"192 columns of B of K={shape.K} do not fit beside A's, {MOST} do" if shape.K > MOST else "",
    launches=(
        CudaLaunch(
            entry="fp8_gemm_pos_v4",
            grid=lambda shape, p: (_blocks(shape, p),),
            block=lambda shape, p: 3 * 128,
            shared_bytes=_shared_bytes,
            arguments=(
                *("scale_a", "scale_b", "table", "C"),
                TensorMap("A", box=(ROWS, BAND)),
                TensorMap("B", box=(COLUMNS // 8, 2, BAND), sizes=lambda shape, p: (shape.N // 8, 8, shape.K)),
                "M",
            ),
        ),
    ),
)
