"""Products of numbers and scales as they are, by the tensor core of sm_100; copies ahead; in CuTe DSL."""

from gdnbench import CudaLaunch, CuteKernel, Param, Params, Workload

ROWS = 128  # of C, one for each lane of tensor memory, and the threads of a block
STEP_BYTES = 128  # of a row's numbers in a step
SCALE_BYTES = 2048  # of a step of 128 rows
BARRIER_BYTES = 1024  # room for mbarriers and an address, before matrices at a multiple of it


def grid(shape: Workload, p: Params) -> tuple[int, ...]:
    return (-(-shape.N // p.COLUMNS), -(-shape.M // ROWS), shape.L)


def shared_bytes(_shape: Workload, p: Params) -> int:
    return p.STAGES * ((ROWS + p.COLUMNS) * STEP_BYTES + 2 * SCALE_BYTES) + BARRIER_BYTES


kernel = CuteKernel(
    name="nvfp4-gemm-native",
    params={
        "COLUMNS": Param(default=64, choices=(32, 64, 128), doc="columns of C a block"),
        "STAGES": Param(default=5, choices=(3, 4, 5, 6), doc="steps of 256 numbers in shared memory"),
    },
    launches=(
        CudaLaunch(
            entry="nvfp4_gemm_native",
            grid=grid,
            block=lambda _shape, _p: ROWS,
            shared_bytes=shared_bytes,
            arguments=("A", "sfa", "B", "sfb", "C", "M"),
        ),
    ),
    target="sm_100a",
)
