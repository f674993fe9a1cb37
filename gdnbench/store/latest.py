"""The last known time of each kernel: of the newest run on a GPU that timed it. Reads little, for `list` is quick."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from gdnbench.codec import SchemaError, convert_cells
from gdnbench.errors import RunFormatError
from gdnbench.model import CPU, Role, Shape, Timer
from gdnbench.store.find import readable, runs_beside
from gdnbench.store.info import NAME as INFO
from gdnbench.store.measurements import NAME as MEASUREMENTS
from gdnbench.store.reading import DAMAGED, read_document
from gdnbench.store.schema import HighEnd, Line, LowEnd, Microseconds, Name, ShapeDocument
from gdnbench.store.table import quick_rows


@dataclass(frozen=True, kw_only=True)
class LastTime:
    """A kernel's time in the newest run that has one.

    Attributes:
        run_id: the run.
        gpu: the GPU's short name.
        kernel: what ran: for a dispatcher, the kernel that it picked.
        time_us: microseconds.
        low_us: lower end of its interval.
        high_us: upper end.
        sources: hashes of the sources of that run's kernels, by name.
    """

    run_id: str
    gpu: str
    kernel: str
    time_us: float
    low_us: float
    high_us: float
    sources: dict[str, str]


class _Info(TypedDict):
    run_id: Name
    gpu: Name
    op: Name
    sources: dict[Name, Line]


class _Cells(ShapeDocument):
    kernel: Name
    label: Name
    role: Role
    timer: Timer
    time_us: Microseconds
    time_lo_us: LowEnd
    time_hi_us: HighEnd


def last_times(results: Path, op: str, shape: Shape, labels: Collection[str]) -> dict[str, LastTime]:
    """By label, the times of kernels at a shape, each of the newest run that has one, by NVBench.

    A run that cannot be read is left out with a warning.
    """
    found: dict[str, LastTime] = {}
    for times in readable(runs_beside(results), lambda folder: _times(folder, op, shape)):
        found = {**times, **found}
        if set(labels) <= found.keys():
            break
    return found


def _times(folder: Path, op: str, shape: Shape) -> dict[str, LastTime]:
    info = read_document(folder / INFO, _Info)
    if info["gpu"] == CPU or info["op"] != op:
        return {}
    path = folder / MEASUREMENTS
    found: dict[str, LastTime] = {}
    for line, cells in quick_rows(path):
        if cells.get("time_us") and cells.get("timer") == "nvbench" and cells.get("role") != Role.CONTROL:
            found |= _last_time(path, line, cells, info, shape)
    return found


def _last_time(path: Path, line: int, cells: dict[str, str], info: _Info, shape: Shape) -> dict[str, LastTime]:
    try:
        row = convert_cells(cells, _Cells)
    except SchemaError as error:
        raise RunFormatError(f"{path} line {line}, {error}", DAMAGED) from error
    if any(row[axis] != size for axis, size in shape.axes().items()):  # type: ignore[literal-required]
        return {}
    time = LastTime(
        run_id=info["run_id"],
        gpu=info["gpu"],
        kernel=row["kernel"],
        time_us=row["time_us"],
        low_us=row["time_lo_us"],
        high_us=row["time_hi_us"],
        sources=info["sources"],
    )
    return {row["label"]: time}
