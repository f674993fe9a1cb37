"""v7 where blocks take whole sequences in turns, by a schedule: the longest first."""

from gdnbench import CudaKernel, CudaLaunch, Param, Params, Shape, TensorMap

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
THREADS = 512
ROWS = 64  # of the state in a block
MOST_TEAMS = 32  # lanes of the warp that works out the schedule
BLOCK_BYTES = 217088  # what the kernel's struct ScheduledMemory takes


def _grid(shape: Shape, params: Params) -> tuple[int, ...]:
    """Teams of a block for each value head and part of its rows: as many as run at once, but no more than sequences."""
    team = shape.HV * shape.V // ROWS
    return (team * max(min(params.SMS // team, len(shape.lengths), MOST_TEAMS), 1),)


kernel = CudaKernel(
    name="prefill-v8",
    target="sm_90a",
    params={
        "SMS": Param(default=132, choices=(2, 64, 128, 132), doc="blocks that run at once"),
        "SCHEDULED": Param(
            default=512, choices=(4, 512), doc="with more sequences than that they are taken as they come"
        ),
    },
    launches=(
        CudaLaunch(
            entry="gdn_prefill",
            grid=_grid,
            block=lambda shape, p: THREADS,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
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
            ),
        ),
    ),
    invariant=("order", "rerun"),
)
