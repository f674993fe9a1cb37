"""Both products as one beside the tensor core of sm_100, sums in tensor memory, silu in registers; in CuTe DSL."""

from gdnbench import CudaLaunch, CuteKernel, Param, Params, Workload

ROWS = 128  # of C, one for each lane of tensor memory, and the threads of a block
CHUNK = 64  # numbers of bf16 in a row of 128 bytes
BARRIER_BYTES = 1024  # room for mbarriers and an address, before matrices at a multiple of it


def grid(shape: Workload, p: Params) -> tuple[int, ...]:
    return (-(-shape.N // p.COLUMNS), -(-shape.M // ROWS))


kernel = CuteKernel(
    name="nvfp4-dual-gemm-cute",
    params={
        "COLUMNS": Param(default=64, choices=(16, 32, 64), doc="columns of C a block, each of B1 and of B2"),
        "STAGES": Param(default=2, choices=(1, 2, 3, 4), doc="chunks in shared memory"),
        "AHEAD": Param(default=2, choices=(1, 2, 4), doc="chunks that a thread loads ahead"),
    },
    launches=(
        CudaLaunch(
            entry="nvfp4_dual_gemm_cute",
            grid=grid,
            block=lambda _shape, _p: ROWS,
            shared_bytes=lambda _shape, p: p.STAGES * (ROWS + 2 * p.COLUMNS) * CHUNK * 2 + BARRIER_BYTES,
            arguments=("A", "sfa", "B1", "sfb1", "B2", "sfb2", "C", "M"),
        ),
    ),
    target="sm_100a",
)
