"""A CSV file of anybody's with a kernel and a time in each row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.compare.naming import split_label
from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model import Role, Shape, Status, gpu_slug

MUST = ("kernel", "time_us")
_AXES = ("B", "HQ", "HV", "K", "V")
MAY = (*_AXES, "gpu", "timer", "op", "time_lo_us", "time_hi_us")
OP = "decode"  # where a file does not say: the op that others measure
_MEND = "put the file right; its times are in microseconds, with a point before the decimals"


def header_of(text: str) -> list[str]:
    """The cells of the first line."""
    return [cell.strip() for cell in text.partition("\n")[0].split(",")]


def read_csv(path: Path, text: str) -> Source:
    """The figures of a CSV file.

    Args:
        path: what to call it.
        text: what it holds: the columns `MUST`, and any of `MAY`. Empty cells take a default: B=1 qk4_v8, the op
            `decode`, an unknown GPU and timer; an empty time is a kernel that was not measured.

    Raises:
        RunFormatError: if a column is missing, a number is none, a kernel comes twice, or the GPUs are several.
    """
    figures: dict[tuple[str, Shape, str], Figure] = {}
    gpus = set()
    for line, row in _rows(path, text):
        try:
            figure = _figure(row)
        except (ValueError, ShapeError) as error:
            raise RunFormatError(f"{path} line {line}: {error}", _MEND) from error
        key = (figure.label, figure.shape, figure.timer)
        if key in figures:
            message = f"{path} line {line}: {figure.label} at {figure.shape} is there a second time"
            raise RunFormatError(message, "give each kernel one row for a shape and timer")
        figures[key] = figure
        gpus.add(gpu_slug(row["gpu"]) if row.get("gpu") else "")
    if not figures:
        raise RunFormatError(f"{path} holds no figures", "it has a header and no rows below it")
    if len(gpus) > 1:
        found = ", ".join(sorted(gpu or "unknown" for gpu in gpus))
        raise RunFormatError(f"{path} is of several GPUs ({found})", "give each GPU a file of its own")
    return Source(
        name=path.name,
        kind=Kind.FOREIGN,
        gpu=gpus.pop(),
        figures=tuple(figures.values()),
        warnings=tuple(_doubts(header_of(text))),
    )


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows by column, cells stripped; blank lines are passed over."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [cell.strip() for cell in next(reader, [])]
        _check_columns(path, columns)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                message = f"{path} line {reader.line_num} has {len(cells)} cells and the header {len(columns)}"
                raise RunFormatError(message, "is the file cut off? cells that hold commas need quotes")
            yield reader.line_num, dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    except csv.Error as error:
        raise RunFormatError(f"{path} line {reader.line_num} is no CSV: {error}", "is the file cut off?") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in MUST if name not in columns]
    if missing:
        found = ", ".join(filter(None, columns))[:200] or "none"
        hint = f"it has {found}; cells are separated by commas. Of NVBench, give the JSON file (--json) instead"
        raise RunFormatError(f"{path} lacks the column {' and '.join(missing)}", hint)
    twice = sorted({name for name in (*MUST, *MAY) if columns.count(name) > 1})
    if twice:
        raise RunFormatError(f"{path} has the column {', '.join(twice)} twice", "keep one of them")


def _figure(row: Mapping[str, str]) -> Figure:
    if not row["kernel"]:
        raise ValueError("kernel is empty")
    kernel, params = split_label(row["kernel"])
    time_us = _microseconds(row, "time_us")
    low_us, high_us = _microseconds(row, "time_lo_us"), _microseconds(row, "time_hi_us")
    if low_us > time_us or high_us < time_us:
        raise ValueError(f"the time {time_us:g} lies outside its interval, {low_us:g} to {high_us:g}")
    measured = not math.isnan(time_us)
    return Figure(
        op=row.get("op") or OP,
        kernel=kernel,
        label=row["kernel"],
        params=params,
        shape=Shape(**{axis: int(row[axis]) for axis in _AXES if row.get(axis)}),
        role=Role.FLOOR if "-floor-" in kernel else Role.KERNEL,
        timer=row.get("timer", ""),
        time_us=time_us,
        low_us=low_us,
        high_us=high_us,
        status=Status.OK if measured else Status.NOT_RUN,
        reason="" if measured else "the file gives no time",
    )


def _microseconds(row: Mapping[str, str], column: str) -> float:
    """A positive number; NaN where the cell is empty or the column is not there."""
    text = row.get(column, "")
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{column} is {text[:40]!r}, which is no time in microseconds")
    return value


def _doubts(columns: list[str]) -> Iterator[str]:
    ignored = [name for name in columns if name and name not in (*MUST, *MAY)]
    if ignored:
        yield f"columns that gdnbench does not know were passed over: {', '.join(ignored)}"
    assumed = [axis for axis in _AXES if axis not in columns]
    if assumed:
        default = Shape()
        values = ", ".join(f"{axis}={size}" for axis, size in default.axes().items() if axis in assumed)
        yield f"the file does not give the shape in full: {values} is assumed"
