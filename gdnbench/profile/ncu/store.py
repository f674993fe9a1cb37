"""Stored profiles: tidy CSV with a row for each metric of each launch, and the search for those of a kernel."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gdnbench.catalog.catalog import op_named
from gdnbench.codec import Text, convert_cells
from gdnbench.errors import LeftOutWarning, ReportFormatError, ShapeError, UnknownNameError
from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profile.files import SourceHash, find_files, read_text
from gdnbench.profile.ncu.quantities import LaunchProfile, Metric, Value, check_value
from gdnbench.store.schema import SmallCount

_SOURCE = "source"
_WHAT, _WHERE = ("kernel", "op"), ("gpu", "arch", _SOURCE, "function", "launch")
_LAUNCH = (*_WHAT, *_WHERE)
_METRIC = ("section", "metric", "unit", "value")
WHAT_IS_READ = "give a .ncu-rep, or a .csv that `gdnbench ncu` stored; what ncu itself prints (--page raw) is not read"
_DAMAGED = "the file is damaged; profile again"
COLUMNS = (*_LAUNCH, *_METRIC)  # the op's axes follow the column `op`


class _Launch(msgspec.Struct, frozen=True):
    launch: SmallCount
    label: Text = msgspec.field(default="", name="kernel")
    op: Text = ""
    gpu: Text = ""
    arch: Text = ""
    function: Text = ""
    source: SourceHash = ""


class _Metric(msgspec.Struct, frozen=True):
    metric: Annotated[str, Meta(min_length=1)]
    section: str = ""
    unit: str = ""
    value: str = ""


@dataclass(frozen=True)
class StoredProfiles:
    """Launches of one kernel at one workload that were profiled together, at least one, and their code's state."""

    path: Path
    profiles: tuple[LaunchProfile, ...]
    code: CodeState


def write_profiles(path: Path, profiles: Sequence[LaunchProfile]) -> None:
    """Writes profiles atomically, with all digits; ValueError for two profiles of one launch."""
    axes = tuple(dict.fromkeys(name for each in profiles if each.workload for name in each.workload.cells))
    launches = [_launch_cells(profile, axes) for profile in profiles]
    if len(set(launches)) < len(launches):
        raise ValueError("two profiles of one launch")
    temporary = path.with_name(f".new-{path.name}")  # keeps the suffix, which decides on compression
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(temporary, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*_WHAT, *axes, *_WHERE, *_METRIC))
        for cells, profile in zip(launches, profiles, strict=True):
            writer.writerows((*cells, *_metric_cells(metric)) for metric in profile.metrics.values())
    temporary.replace(path)


def read_profiles(path: Path) -> tuple[LaunchProfile, ...]:
    """Reads what `write_profiles` wrote; older files lack the column `source`. Raises ReportFormatError if invalid."""
    return parse_profiles(read_text(path, _DAMAGED), path)


def parse_profiles(text: str, path: Path) -> tuple[LaunchProfile, ...]:
    """Parses the text of such a file; `path` is for errors; raises ReportFormatError as `read_profiles`."""
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


def find_profiles(
    profiles: Path, label: str, workload: Workload, *, source: str, gpu: str | None = None
) -> StoredProfiles | None:
    """Returns the newest profiles of a kernel's code at a workload, else of any code, or None if there are none.

    The code is known by `source`, the hash of its sources; files without one count as other code. Profiles of any GPU
    count if `gpu`, the short name, is None. Unreadable files are left out with a `LeftOutWarning`.
    """
    newest: StoredProfiles | None = None
    try:
        paths = find_files(profiles, "ncu", label, workload, suffix=".csv", gpu=gpu)
    except ReportFormatError as error:
        _warn(error)
        return None
    for path in paths:
        try:
            found = _of_kernel(path, label, workload, source)
        except ReportFormatError as error:
            _warn(error)
            continue
        if found.code is CodeState.CURRENT:
            return found
        newest = newest or found
    return newest


def _launch_cells(profile: LaunchProfile, axes: Sequence[str]) -> tuple[str | int, ...]:
    sizes = profile.workload.cells if profile.workload else {}
    where = (profile.gpu, profile.arch, profile.source, profile.function)
    return (profile.label, profile.op, *(sizes.get(name, "") for name in axes), *where, profile.launch)


def _metric_cells(metric: Metric) -> tuple[str, str, str, str]:
    value = metric.value if isinstance(metric.value, str) else repr(metric.value).removesuffix(".0")
    return metric.section, metric.name, metric.unit, value


def _profiles_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[LaunchProfile, ...]:
    names = [name for name in head if name not in _METRIC]
    seen: dict[tuple[str, ...], tuple[_Launch, Workload | None]] = {}  # by cells that all rows of a launch share
    found: dict[tuple[_Launch, Workload | None], dict[str, Metric]] = {}
    for cells in rows:
        if len(cells) != len(head):
            raise ValueError(f"{len(cells)} cells, and the head has {len(head)}")
        row = dict(zip(head, cells, strict=True))
        key = tuple(row[name] for name in names)
        if key not in seen:
            launch = convert_cells({name: row[name] for name in _LAUNCH if name in row}, _Launch)
            seen[key] = (launch, _workload_of(row))
        metrics, metric = found.setdefault(seen[key], {}), _metric_of(row)
        if metrics.setdefault(metric.name, metric) is not metric:
            raise ValueError(f"metric: {metric.name} is there twice for one launch")
    return tuple(
        LaunchProfile(workload=workload, metrics=metrics, **msgspec.structs.asdict(launch))
        for (launch, workload), metrics in found.items()
    )


def _workload_of(row: Mapping[str, str]) -> Workload | None:
    sizes = {name: cell for name, cell in row.items() if cell and name not in COLUMNS}
    if not sizes or not row["op"]:
        return None
    try:
        declared = op_named(row["op"])
    except UnknownNameError as error:
        raise ValueError(f"op: {error.message}") from error
    axes = declared.workloads
    if not sizes.keys() & set(axes.names):
        return None
    if missing := [name for name in axes.names if name not in sizes]:
        raise ValueError(f"{', '.join(missing)} of the workload is missing")
    return declared.checked(axes.from_cells(sizes))


def _metric_of(row: Mapping[str, str]) -> Metric:
    cells = convert_cells({name: row[name] for name in _METRIC}, _Metric)
    value = _value(cells.value)
    check_value(cells.metric, value)
    return Metric(cells.metric, cells.unit, value, cells.section)


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text


def _of_kernel(path: Path, label: str, workload: Workload, source: str) -> StoredProfiles:
    own = [one for one in read_profiles(path) if one.label == label and one.workload in {None, workload}]
    if not own:
        raise ReportFormatError(f"{path} holds no launch of {label} at {workload}")
    current = tuple(profile for profile in own if CodeState.of(profile.source, source) is CodeState.CURRENT)
    return StoredProfiles(path, current or tuple(own), CodeState.of((current or own)[0].source, source))


def _warn(error: ReportFormatError) -> None:
    warnings.warn(f"a profile is left out: {error.message}", LeftOutWarning, stacklevel=3)
