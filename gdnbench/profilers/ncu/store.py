"""Profiles as tidy CSV: a row for each metric of each launch, with all that says what was launched where."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from gdnbench.errors import ReportFormatError, ShapeError
from gdnbench.model import Shape
from gdnbench.profilers.ncu.profile import Metric, Profile, Value
from gdnbench.profilers.place import latest_of

_AXES = tuple(Shape().axes())
_LAUNCH = ("kernel", "op", *_AXES, "gpu", "arch", "function", "launch")
WHAT_IS_READ = "give a .ncu-rep, a .csv that `gdnbench ncu` stored, or what `ncu --csv --page raw` prints"
_DAMAGED = "the file is damaged; profile again"
COLUMNS = (*_LAUNCH, "section", "metric", "unit", "value")


def write_profiles(path: Path, profiles: Sequence[Profile]) -> None:
    """Writes profiles in one step, compressed where the name ends in `.gz`; numbers with every digit.

    Raises:
        ValueError: if two of them are the same launch of the same function, which a reader could not tell apart.
    """
    launches = [_launch_cells(profile) for profile in profiles]
    if len(set(launches)) < len(launches):
        raise ValueError("two profiles of one launch")
    temporary = path.with_name(f".new-{path.name}")  # the ending says whether to compress
    with open_text(temporary, "wt") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for cells, profile in zip(launches, profiles, strict=True):
            writer.writerows((*cells, *_metric_cells(metric)) for metric in profile.metrics.values())
    temporary.replace(path)


def read_profiles(path: Path) -> tuple[Profile, ...]:
    """Reads what `write_profiles` wrote.

    Raises:
        ReportFormatError: if the file cannot be read, is cut off, or is something else.
    """
    try:
        with open_text(path, "rt") as file:
            text = file.read()
        rows = csv.DictReader(io.StringIO(text), strict=True)
        if missing := [column for column in COLUMNS if column not in (rows.fieldnames or ())]:
            raise ReportFormatError(f"{path} holds no profiles: it lacks the column {missing[0]}", WHAT_IS_READ)
        if not text.endswith("\n"):
            raise ReportFormatError(f"{path} is cut off", _DAMAGED)
        return _profiles_of(rows)
    except (OSError, EOFError, zlib.error, csv.Error, ValueError, TypeError, ShapeError) as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", _DAMAGED) from error


def latest(profiles: Path, label: str, shape: Shape, gpu: str | None = None) -> Path | None:
    """The newest stored profiles of a kernel at a shape; None where there are none.

    Args:
        profiles: the folder that holds all profiles.
        label: the kernel's label, `decode-v4`.
        shape: the workload.
        gpu: the GPU's short name, `h200`; any GPU if not given.
    """
    return latest_of(profiles, "ncu", label, shape, suffix=".csv", gpu=gpu)


@contextmanager
def open_text(path: Path, mode: Literal["rt", "wt"]) -> Iterator[TextIO]:
    """Opens a text file, compressed where its name ends in `.gz`."""
    if path.suffix == ".gz":
        with gzip.open(path, mode, encoding="utf-8", newline="") as file:
            yield file
    else:
        with path.open(mode, encoding="utf-8", newline="") as file:
            yield file


def _launch_cells(profile: Profile) -> tuple[str | int, ...]:
    axes = profile.shape.axes().values() if profile.shape else [""] * len(_AXES)
    return (profile.label, profile.op, *axes, profile.gpu, profile.arch, profile.function, profile.launch)


def _metric_cells(metric: Metric) -> tuple[str, str, str, str]:
    value = metric.value if isinstance(metric.value, str) else repr(metric.value).removesuffix(".0")
    return metric.section, metric.name, metric.unit, value


def _profiles_of(rows: Iterable[Mapping[str, str]]) -> tuple[Profile, ...]:
    launches: dict[tuple[str, ...], dict[str, Metric]] = {}
    for row in rows:
        metric = Metric(row["metric"], row["unit"], _value(row["value"]), row["section"])
        launches.setdefault(tuple(row[column] for column in _LAUNCH), {})[metric.name] = metric
    return tuple(_profile_of(dict(zip(_LAUNCH, cells, strict=True)), found) for cells, found in launches.items())


def _profile_of(cells: Mapping[str, str], metrics: Mapping[str, Metric]) -> Profile:
    shape = Shape(**{axis: int(cells[axis]) for axis in _AXES}) if cells["B"] else None
    return Profile(
        label=cells["kernel"],
        op=cells["op"],
        shape=shape,
        gpu=cells["gpu"],
        arch=cells["arch"],
        function=cells["function"],
        launch=int(cells["launch"]),
        metrics=metrics,
    )


def _value(text: str) -> Value:
    """A number where it is one; a cell that is missing is no text and raises TypeError."""
    try:
        return float(text)
    except ValueError:
        return text
