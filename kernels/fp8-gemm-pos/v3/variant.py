"""As fp8-gemm-pos-v2, and what its study proposed, each by a param whose default is v2's way."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

ROWS, BAND = 64, 128  # of a tile; bytes of each row that a stage has
WARP_ROWS, BOX_COLUMNS = 16, 64  # of C, that a bulk copy takes
SHARED_BYTES = 227 * 1024  # of Hopper, a block
OTHER_BYTES = 2048
MOST = 768  # columns of A and of B


def _shared_bytes(shape: Shape, p: Params) -> int:
    """What the kernel's struct Memory takes."""
    bands = -(-shape.K // BAND)
    columns, staged = bands * BAND * p.COLUMNS, p.GROUPS * ROWS * BOX_COLUMNS * 2 * p.STAGED
    stages = min(12, (SHARED_BYTES - OTHER_BYTES - columns - staged) // (ROWS * BAND))
    return -(-(columns + staged + stages * (ROWS * BAND + 2 * 8) + bands * 8) // 1024) * 1024


def _blocks(shape: Shape, p: Params) -> int:
    """Blocks of the same rows lie side by side, so that they run at once and find these rows in L2."""
    across = -(-shape.N // p.COLUMNS)
    return across * min(max(1, p.BLOCKS // across), -(-shape.M // ROWS))


def _box(shape: Shape, p: Params) -> tuple[int, int]:
    """What a block of a cluster brings at once; of columns that make no whole clusters each block has its own."""
    across = -(-shape.N // p.COLUMNS)
    return ROWS // (p.CLUSTER if across % p.CLUSTER == 0 else 1), BAND


def _check(shape: Shape) -> str:
    return f"256 columns of B of K={shape.K} do not fit into shared memory, {MOST} do" if shape.K > MOST else ""


kernel = CudaKernel(
    name="fp8-gemm-pos-v3",
    target="sm_90a",
    params={
        "COLUMNS": Param(default=192, choices=(192, 256), doc="of B that a block keeps"),
        "KEEP": Param(
            default=1,
            choices=(0, 1),
            doc="1: tiles that take the same rows of the table follow each other, which then stay in registers",
        ),
        "BLOCKS": Param(default=132, choices=(1, 114, 128, 132), doc="one an SM"),
        "CLUSTER": Param(
            default=1, choices=(1, 2, 4), doc="blocks that read rows of A once, each a part, for all of them"
        ),
        "GROUPS": Param(default=2, choices=(1, 2, 3), doc="warpgroups that multiply and finish tiles; 3 with KEEP=0"),
        "STAGGER": Param(
            default=0, choices=(0, 1, 2, 3), doc="bands of a tile's products that are issued beside the next group's"
        ),
        "STAGED": Param(
            default=0,
            choices=(0, 1, 2, 3),
            doc="boxes of 64 columns of C that a warp has room for in shared memory, for bulk copies; 0: it stores",
        ),
        "PACKED": Param(default=0, choices=(0, 1, 2), doc="bf16 pairs: 1 the addition, 2 a fused one, also the scale"),
        "EARLY": Param(default=0, choices=(0, 1), doc="1: the table is asked for before the products, not after them"),
        "PERSIST": Param(default=0, choices=(0, 1), doc="1: the table is the last to leave the L2"),
        "STREAM": Param(default=0, choices=(0, 1, 2, 3), doc="what leaves the L2: 1 C first, 2 C last, 3 A first"),
        "PROMOTE": Param(default=128, choices=(0, 64, 128, 256), doc="bytes of A that a miss brings into the L2"),
        "PENDING": Param(default=1, choices=(1, 2, 3), doc="bands whose products run on while the next one is begun"),
        "UNROLL": Param(default=0, choices=(0, 1, 2, 3), doc="bands of the K loop's body; 0: all"),
        "DESCRIPTORS": Param(
            default=0, choices=(0, 1), doc="1: stages are counted on, and descriptors added to in 32 bits"
        ),
        "BANDED": Param(default=0, choices=(0, 1), doc="1: products begin with the first band of B, not with all"),
    },
    presets={
        "fp8-gemm-pos-v3-banded": {"BANDED": 1, "EARLY": 1},
        "fp8-gemm-pos-v3-shared": {"BANDED": 1, "EARLY": 1, "CLUSTER": 2},
    },
    check=_check,
    launches=(
        CudaLaunch(
            entry="fp8_gemm_pos_v3",
            grid=lambda shape, p: (_blocks(shape, p),),
            block=lambda shape, p: (p.GROUPS + 1) * 128,
            shared_bytes=_shared_bytes,
            arguments=(
                "B",
                "scale_a",
                "scale_b",
                "table",
                "C",
                TensorMap("A", box=_box, promotion=lambda shape, p: p.PROMOTE),
                TensorMap("C", box=(WARP_ROWS, BOX_COLUMNS)),
                "M",
            ),
        ),
    ),
)
