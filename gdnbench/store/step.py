"""`step.csv`: a chain of layers by every way of launching it; `step-launches.csv`: launches by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gdnbench.codec import convert_cells
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.status import Status
from gdnbench.store.files import DAMAGED, read_rows, write_table
from gdnbench.store.info import read_info
from gdnbench.store.schema import Count, HighEnd, LowEnd, Name, NotNegative, TextLine

NAME = "step.csv"
LAUNCHES_OP = "launches"
"""What stands for the op in a run of launches alone."""
LAUNCH_WAYS = "step-launches.csv"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """A kernel at a workload, by one path, in one condition of the L2. Times in microseconds a layer, with intervals.

    Attributes:
        schema: version of this format.
        run_id: the run.
        gpu: the GPU's short name.
        op: the op.
        kernel: what ran.
        label: what tables call it.
        params: its params, `LANES=8 WARPS=4`.
        workload: the setting of the op's axes.
        path: how the chain is launched.
        l2: what the L2 holds when a step begins.
        is_again: 1 for the baseline measured a second time, else 0.
        layers: launches of the op in the chain.
        between_mib: what is read between two layers, MiB.
        status: how it ended; only `ok` has times.
        reason: why, unless ok.
        rounds: rounds measured.
        processes: of so many processes.
        step_us: event to event, on a stream that was idle, the host included.
        queued_us: event to event, all enqueued before the GPU begins.
        host_us: what the host takes to enqueue the chain.
        kernels_us: the sum of the kernels' own times, by CUPTI.
        gap_us: `queued_us` less `kernels_us`, round by round.
        waits_us: `step_us` less `queued_us`, round by round: what the GPU waits for the host.
        versus: the path that it is compared with; empty for that itself.
        speedup: the step of that path over this one's.
        verdict: faster, slower, same or unclear.
        saved_us: what a layer of the step takes less than by that path, round by round.
    """

    schema: Count = SCHEMA
    run_id: Name
    gpu: Name
    op: Name
    kernel: Name
    label: Name
    params: TextLine = ""
    workload: TextLine
    path: Name
    l2: Name
    is_again: Count = 0
    layers: Count
    between_mib: NotNegative
    status: Status
    reason: TextLine = ""
    rounds: Count = 0
    processes: Count = 0
    step_us: float | None = None
    step_lo_us: LowEnd | None = None
    step_hi_us: HighEnd | None = None
    queued_us: float | None = None
    queued_lo_us: LowEnd | None = None
    queued_hi_us: HighEnd | None = None
    host_us: float | None = None
    host_lo_us: LowEnd | None = None
    host_hi_us: HighEnd | None = None
    kernels_us: float | None = None
    kernels_lo_us: LowEnd | None = None
    kernels_hi_us: HighEnd | None = None
    gap_us: float | None = None
    gap_lo_us: float | None = None
    gap_hi_us: float | None = None
    waits_us: float | None = None
    waits_lo_us: float | None = None
    waits_hi_us: float | None = None
    versus: TextLine = ""
    speedup: float | None = None
    speedup_lo: float | None = None
    speedup_hi: float | None = None
    verdict: TextLine = ""
    saved_us: float | None = None
    saved_lo_us: float | None = None
    saved_hi_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchWayRow:
    """What a launch costs by one way. Times in microseconds, with intervals.

    Attributes:
        schema: version of this format.
        run_id: the run.
        gpu: the GPU's short name.
        way: how an empty kernel is launched.
        arguments: how many it has; 0 where that is not ours to say.
        status: how it ended; only `ok` has times.
        reason: why, unless ok.
        rounds: rounds measured.
        processes: of so many processes.
        host_us: what the host takes for a launch.
        gap_us: from the start of a kernel to that of the next, all enqueued before the GPU begins.
    """

    schema: Count = SCHEMA
    run_id: Name
    gpu: Name
    way: Name
    arguments: Count
    status: Status
    reason: TextLine = ""
    rounds: Count = 0
    processes: Count = 0
    host_us: float | None = None
    host_lo_us: LowEnd | None = None
    host_hi_us: HighEnd | None = None
    gap_us: float | None = None
    gap_lo_us: LowEnd | None = None
    gap_hi_us: HighEnd | None = None


def write_steps(folder: Path, rows: Sequence[StepRow]) -> None:
    """Writes `step.csv`."""
    write_table(folder / NAME, [asdict(row) for row in rows], [each.name for each in fields(StepRow)])


def write_launch_ways(folder: Path, rows: Sequence[LaunchWayRow]) -> None:
    """Writes `step-launches.csv`."""
    write_table(folder / LAUNCH_WAYS, [asdict(row) for row in rows], [each.name for each in fields(LaunchWayRow)])


def is_step(folder: Path) -> bool:
    """Whether a run is of `gdnbench step`, whose settings alone have layers: its table may have been lost.

    Raises:
        RunFormatError: if the folder holds no run that can be read.
    """
    return (folder / NAME).is_file() or (folder / LAUNCH_WAYS).is_file() or "layers" in read_info(folder).settings


def refuse_step(folder: Path) -> None:
    """Refuses a run of `gdnbench step` where times of single launches are asked for: it has none, and is whole.

    Raises:
        UsageError: for a step.
        RunFormatError: if the folder holds no run that can be read.
    """
    if is_step(folder):
        raise UsageError(
            f"{folder.name} is a step: it has no times of kernels by themselves", f"gdnbench show {folder.name}"
        )


def refuse_lost_rows(folder: Path, op: str) -> None:
    """Says which table a run of `gdnbench step` lacks, or has without a row.

    Args:
        folder: of a run of which no row was read.
        op: what the run says that it is of.

    Raises:
        RunFormatError: in any case.
    """
    path = folder / (LAUNCH_WAYS if op == LAUNCHES_OP else NAME)
    raise RunFormatError(f"{path} {'has no rows' if path.exists() else 'is missing'}", DAMAGED)


def read_steps(folder: Path) -> list[StepRow]:
    """Reads `step.csv`; no rows where there is none.

    Raises:
        RunFormatError: if it is cut off, damaged, or of a schema that is not known here.
        UnreadableError: if it is there, and cannot be read.
    """
    path = folder / NAME
    columns = [each.name for each in fields(StepRow)]
    return read_rows(path, columns, lambda cells: _known(path, convert_cells(cells, StepRow))) if path.exists() else []


def read_launch_ways(folder: Path) -> list[LaunchWayRow]:
    """Reads `step-launches.csv`; likewise."""
    path = folder / LAUNCH_WAYS
    if not path.exists():
        return []
    columns = [each.name for each in fields(LaunchWayRow)]
    rows = read_rows(path, columns, lambda cells: convert_cells(cells, LaunchWayRow))
    if any(row.schema != SCHEMA for row in rows):
        raise RunFormatError(f"{path} is of another schema than {SCHEMA}", DAMAGED)
    return rows


def _known(path: Path, row: StepRow) -> StepRow:
    if row.schema != SCHEMA:
        raise RunFormatError(f"{path} is of schema {row.schema}; this gdnbench reads {SCHEMA}", DAMAGED)
    return row
