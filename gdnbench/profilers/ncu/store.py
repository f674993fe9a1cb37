"""Profiles as tidy CSV: a row for each metric of each launch, with all that says what was launched where."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import msgspec

from gdnbench.errors import ReportFormatError, ShapeError
from gdnbench.model import Shape
from gdnbench.profilers.fields import Axis, Count, Source, Text
from gdnbench.profilers.files import read_text
from gdnbench.profilers.ncu.profile import Metric, Profile, Value
from gdnbench.profilers.ncu.quantities import check_value

_AXES = tuple(Shape().axes())
_SOURCE = "source"
_LAUNCH = ("kernel", "op", *_AXES, "gpu", "arch", _SOURCE, "function", "launch")
_METRIC = ("section", "metric", "unit", "value")
WHAT_IS_READ = "give a .ncu-rep, a .csv that `gdnbench ncu` stored, or what `ncu --csv --page raw` prints"
_DAMAGED = "the file is damaged; profile again"
COLUMNS = (*_LAUNCH, *_METRIC)


class _Launch(msgspec.Struct, frozen=True):
    """What a row says of the launch; an axis is None where a report of somebody else does not tell the shape."""

    kernel: Text
    op: Text
    gpu: Text
    arch: Text
    function: Text
    launch: Count
    B: Axis | None = None
    HQ: Axis | None = None
    HV: Axis | None = None
    K: Axis | None = None
    V: Axis | None = None
    source: Source = ""

    def shape(self) -> Shape | None:
        """The workload; None where no axis is told.

        Raises:
            ShapeError: if it is none.
            ValueError: if some axes are told and others are not.
        """
        axes = {axis: size for axis in _AXES if (size := getattr(self, axis)) is not None}
        if axes and len(axes) < len(_AXES):
            raise ValueError(f"{', '.join(axis for axis in _AXES if axis not in axes)} of the shape is missing")
        return Shape(**axes) if axes else None


def write_profiles(path: Path, profiles: Sequence[Profile]) -> None:
    """Writes profiles in one step, compressed where the name ends in `.gz`; numbers with every digit.

    Raises:
        ValueError: if two of them are the same launch of the same function, which a reader could not tell apart.
    """
    launches = [_launch_cells(profile) for profile in profiles]
    if len(set(launches)) < len(launches):
        raise ValueError("two profiles of one launch")
    temporary = path.with_name(f".new-{path.name}")  # the ending says whether to compress
    with _open_new(temporary) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for cells, profile in zip(launches, profiles, strict=True):
            writer.writerows((*cells, *_metric_cells(metric)) for metric in profile.metrics.values())
    temporary.replace(path)


def read_profiles(path: Path) -> tuple[Profile, ...]:
    """Reads what `write_profiles` wrote; files of before there was a column `source` lack it.

    Raises:
        ReportFormatError: if the file cannot be read, is cut off, or is something else; of a wrong cell, which it is.
    """
    return parse_profiles(read_text(path, _DAMAGED), path)


def parse_profiles(text: str, path: Path) -> tuple[Profile, ...]:
    """The same of a text that was read.

    Raises:
        ReportFormatError: as `read_profiles`.
    """
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        head = next(rows, [])
        if missing := [column for column in COLUMNS if column not in head and column != _SOURCE]:
            raise ReportFormatError(f"{path} holds no profiles: it lacks the column {missing[0]}", WHAT_IS_READ)
        if len(set(head)) < len(head):
            raise ReportFormatError(f"{path}: two columns have one name", _DAMAGED)
        if not text.endswith("\n"):
            raise ReportFormatError(f"{path} is cut off", _DAMAGED)
        return _profiles_of(head, rows)
    except (ValueError, ShapeError, csv.Error) as error:
        raise ReportFormatError(f"{path} line {rows.line_num}: {error}", _DAMAGED) from error


@contextmanager
def _open_new(path: Path) -> Iterator[TextIO]:
    """Opens a text file to write, compressed where its name ends in `.gz`."""
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
            yield file
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file


def _launch_cells(profile: Profile) -> tuple[str | int, ...]:
    axes = profile.shape.axes().values() if profile.shape else [""] * len(_AXES)
    where = (profile.gpu, profile.arch, profile.source, profile.function)
    return (profile.label, profile.op, *axes, *where, profile.launch)


def _metric_cells(metric: Metric) -> tuple[str, str, str, str]:
    value = metric.value if isinstance(metric.value, str) else repr(metric.value).removesuffix(".0")
    return metric.section, metric.name, metric.unit, value


def _profiles_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[Profile, ...]:
    seen: dict[tuple[str, ...], _Launch] = {}  # of the cells, which are the same in all rows of a launch
    found: dict[_Launch, tuple[Shape | None, dict[str, Metric]]] = {}
    for cells in rows:
        if len(cells) != len(head):
            raise ValueError(f"{len(cells)} cells, and the head has {len(head)}")
        row = dict(zip(head, cells, strict=True))
        key = tuple(row.get(column, "") for column in _LAUNCH)
        launch = seen.get(key) or seen.setdefault(key, _launch_of(row))
        if launch not in found:
            found[launch] = (launch.shape(), {})
        metrics, metric = found[launch][1], _metric_of(row)
        if metrics.setdefault(metric.name, metric) is not metric:
            raise ValueError(f"metric: {metric.name} is there twice for one launch")
    return tuple(_profile_of(launch, shape, metrics) for launch, (shape, metrics) in found.items())


def _launch_of(row: Mapping[str, str]) -> _Launch:
    told = {name: row[name] for name in _LAUNCH if name in row and not (name in _AXES and not row[name])}
    return msgspec.convert(told, _Launch, strict=False)  # a cell is a text, whatever it stands for


def _metric_of(row: Mapping[str, str]) -> Metric:
    if not row["metric"]:
        raise ValueError("metric: it has no name")
    value = _value(row["value"])
    check_value(row["metric"], value)
    return Metric(row["metric"], row["unit"], value, row["section"])


def _profile_of(launch: _Launch, shape: Shape | None, metrics: Mapping[str, Metric]) -> Profile:
    return Profile(
        label=launch.kernel,
        op=launch.op,
        shape=shape,
        gpu=launch.gpu,
        arch=launch.arch,
        function=launch.function,
        launch=launch.launch,
        metrics=metrics,
        source=launch.source,
    )


def _value(text: str) -> Value:
    """A number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text
