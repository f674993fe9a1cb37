"""Numbers widened to bf16 beside the tensor core of sm_100, whose sums lie in tensor memory; in CuTe DSL."""

from gdnbench import CudaLaunch, CuteKernel, Param, Params, Workload

ROWS = 128  # of C, one for each lane of tensor memory, and the threads of a block
CHUNK = 64  # numbers of bf16 in a row of 128 bytes
BARRIER_BYTES = 1024  # room for an mbarrier and an address, before matrices at a multiple of it


def grid(shape: Workload, p: Params) -> tuple[int, ...]:
    return (-(-shape.N // p.COLUMNS) * p.CTAS, -(-shape.M // (p.CTAS * ROWS)), shape.L)


kernel = CuteKernel(
    name="nvfp4-gemm-cute",
    params={
        "COLUMNS": Param(default=32, choices=(16, 32, 64, 128), doc="columns of C a block"),
        "CTAS": Param(default=1, choices=(1, 2), doc="blocks that multiply together, 128 rows of C each"),
    },
    launches=(
        CudaLaunch(
            entry="nvfp4_gemm_cute",
            grid=grid,
            block=lambda _shape, _p: ROWS,
            shared_bytes=lambda _shape, p: (ROWS + p.COLUMNS // p.CTAS) * CHUNK * 2 + BARRIER_BYTES,
            arguments=("A", "sfa", "B", "sfb", "C", "M"),
        ),
    ),
    target="sm_100a",
)
