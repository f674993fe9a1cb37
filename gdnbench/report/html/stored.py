"""A run's folder, read whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import RunFormatError
from gdnbench.model import Measurement, Role, Shape, Sweep
from gdnbench.report.run_output import read_rows
from gdnbench.stats import FloatArray
from gdnbench.store import BuildRow, RunInfo, read_builds, read_rounds, read_sweep
from gdnbench.store.samples import ROUNDS


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Everything that a run wrote, but for its samples.

    Attributes:
        folder: where it is.
        info: `run.json`.
        rows: a measurement for each case.
        rounds: round times in microseconds by case id.
        builds: what the compiler made of each variant.
        sweep: the answer of a sweep; None for a run.
    """

    folder: Path
    info: RunInfo
    rows: tuple[Measurement, ...]
    rounds: dict[str, FloatArray]
    builds: tuple[BuildRow, ...]
    sweep: Sweep | None

    @property
    def device(self) -> str:
        """What it ran on, as people call it."""
        gpu = self.info.machine.get("gpu") or {}
        return str(gpu.get("name") or (self.info.gpu if self.on_gpu else "the CPU"))

    @property
    def on_gpu(self) -> bool:
        """Whether GPU times were measured."""
        return self.info.on_gpu

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Every shape, smallest first."""
        return tuple(sorted({row.case.shape for row in self.rows}, key=lambda shape: (shape.heads_pair, shape)))

    def at(self, shape: Shape) -> list[Measurement]:
        """The rows of one shape."""
        return [row for row in self.rows if row.case.shape == shape]


def read_stored(folder: Path) -> Stored:
    """Reads a run's folder.

    Raises:
        RunFormatError: naming the file, if it holds no run that this gdnbench can read.
    """
    info, rows = read_rows(folder)
    stored = Stored(
        folder=folder,
        info=info,
        rows=tuple(rows),
        rounds=read_rounds(folder) if (folder / ROUNDS).exists() else {},
        builds=tuple(read_builds(folder)),
        sweep=read_sweep(folder),
    )
    _check_sweep(stored)
    return stored


def _check_sweep(stored: Stored) -> None:
    """A point without a row would be a point without a time."""
    known = {(row.case.label, row.case.shape) for row in stored.rows}
    points = stored.sweep.points if stored.sweep else ()
    if not all((point.label, point.shape) in known for point in points):
        hint = "the sweep is damaged; sweep anew, or leave it out"
        raise RunFormatError(f"{stored.folder}: sweep.json and measurements.csv differ", hint)


def timed(rows: Iterable[Measurement]) -> list[Measurement]:
    """The rows with a time, fastest first; not the baseline's second one."""
    shown = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    return sorted(shown, key=lambda row: row.timing.time_us if row.timing else 0.0)
