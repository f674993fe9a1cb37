"""A run's whole folder, and short facts of it: what was measured, and the fastest kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import RunFormatError
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.sweep import Sweep
from gdnbench.model.workload import Workload
from gdnbench.report.charts.layout import in_order
from gdnbench.report.charts.selection import timed
from gdnbench.stats import FloatArray
from gdnbench.store.builds import BuildRow, read_builds
from gdnbench.store.files import is_stored
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import read_run
from gdnbench.store.samples import ROUNDS, read_rounds
from gdnbench.store.sweep import read_sweep
from gdnbench.wording import plural


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """Everything that a run wrote, except its samples; `rounds` has round times in microseconds by case id."""

    folder: Path
    info: RunInfo
    rows: tuple[Measurement, ...]
    rounds: dict[str, FloatArray]
    builds: tuple[BuildRow, ...]
    sweep: Sweep | None

    @property
    def device(self) -> str:
        """Common name of the device."""
        gpu = self.info.machine.get("gpu") or {}
        return str(gpu.get("name") or (self.info.gpu if self.on_gpu else "the CPU"))

    @property
    def on_gpu(self) -> bool:
        """Whether GPU times were measured."""
        return self.info.on_gpu

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Every workload, in the order of charts."""
        return in_order(row.case.workload for row in self.rows)

    def at(self, workload: Workload) -> list[Measurement]:
        """Returns the rows of one workload."""
        return [row for row in self.rows if row.case.workload == workload]


def read_stored(folder: Path) -> ReportedRun:
    """Reads a run's folder; raises UsageError for a step, RunFormatError, naming the file, for an unreadable run."""
    info, rows = read_run(folder)
    stored = ReportedRun(
        folder=folder,
        info=info,
        rows=tuple(rows),
        rounds=read_rounds(folder) if is_stored(folder / ROUNDS) else {},
        builds=tuple(read_builds(folder)),
        sweep=read_sweep(folder),
    )
    _check_sweep(stored)
    return stored


def _check_sweep(stored: ReportedRun) -> None:
    """Raises RunFormatError if a point has no row, and so no time."""
    known = {(row.case.label, row.case.workload) for row in stored.rows}
    points = stored.sweep.points if stored.sweep else ()
    if not all((point.label, point.workload) in known for point in points):
        hint = "the sweep is damaged; sweep anew, or leave it out"
        raise RunFormatError(f"{stored.folder}: sweep.json and measurements.csv differ", hint)


@dataclass(frozen=True, kw_only=True)
class FastestKernel:
    """The fastest kernel of a workload; `peers` are labels that tie with it, or that the rounds cannot tell from it."""

    row: Measurement
    peers: tuple[str, ...]


def fastest_of(info: RunInfo, rows: Sequence[Measurement], rounds: Mapping[str, FloatArray]) -> FastestKernel | None:
    """Returns the fastest row except floors, by the rounds that all share, or None without a time."""
    from gdnbench.stats.comparison import Verdict
    from gdnbench.stats.multiple import compare_with_best

    racing = {row.case.id: row for row in timed(rows) if row.role.does_the_work}
    if not racing:
        return None
    known = {name: rounds[name] for name in racing if name in rounds}
    if len(known) < len(racing) or len(known) < 2:
        return FastestKernel(row=next(iter(racing.values())), peers=())
    try:
        field = compare_with_best(known, margin=info.settings["margin"], confidence=info.settings["confidence"])
    except ValueError:  # no rounds, or invalid ones: the table's order still holds
        return FastestKernel(row=next(iter(racing.values())), peers=())
    level = {Verdict.SAME, Verdict.UNCLEAR}
    peers = tuple(racing[name].case.label for name, other in field.others.items() if other.verdict in level)
    return FastestKernel(row=racing[field.leader], peers=peers)


def lead_line(stored: ReportedRun) -> str:
    """Returns what was measured, where and how."""
    info, settings = stored.info, stored.info.settings
    timer = "NVBench, cold L2" if stored.on_gpu else "warm calls on the CPU"
    rounds = f"{settings['rounds']} rounds of up to {settings['samples']} samples"
    further = ", more for the points in front" if stored.sweep else ""
    return f"{info.op} on {stored.device}: {_counts(stored)}, {timer}, {rounds}{further}"


def _counts(stored: ReportedRun) -> str:
    if stored.sweep:
        return plural(len(stored.sweep.points), "point")
    floors = {row.case.label: row.role is Role.FLOOR for row in timed(stored.rows)}
    counts = ((len(floors) - sum(floors.values()), "kernel"), (sum(floors.values()), "floor"))
    return " and ".join(plural(count, name) for count, name in counts if count) or "nothing timed"
