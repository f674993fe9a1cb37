"""Reads files of other tools: NVBench's JSON, or CSV with a kernel and a time in each row.

NVBench's JSON holds benchmarks, each with states, each with summaries, each with a tag and a value as text. Runs of
gdnbench have such a file, too: its benchmarks are named for a round and a case, `r03/decode-v4/B1_HQ4_HV8_K128_V128`,
and the rounds of a case make one figure. Times are means over a state's samples, the "GPU Time" of NVBench's own table.
It gives medians as well, but in whole ticks of 32 ns, which is 1 % of 3 µs. Over the 36 cases of
20261121-101900-h200-decode-main the means are 0.0 to 1.0 % above the run's interquartile means, the medians 0.6 % below
to 1.8 % above.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gdnbench.analyse.figure import (
    Figure,
    FigureSource,
    SourceKind,
    assumed_sizes,
    join_label,
    read_axes,
    read_case_id,
    role_by_name,
    split_label,
)
from gdnbench.catalog.catalog import op_named
from gdnbench.catalog.select import DEFAULT_OP
from gdnbench.errors import RunFormatError, ShapeError, UnknownNameError, UsageError
from gdnbench.model.declaration import Params, parse_value
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.regular_file import MOST_BYTES, read_regular, unpack
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import median_known
from gdnbench.stats.interval import round_interval

REQUIRED = ("kernel", "time_us")
OPTIONAL = ("gpu", "timer", "op", "time_lo_us", "time_hi_us")  # beside the axes of the op

_GZIP = b"\x1f\x8b"
_UNDERSTOOD = (
    "gdnbench reads NVBench's JSON (write it with --json or --jsonbin; .gz as well), CSV with the columns "
    f"{' and '.join(REQUIRED)}, and the folders of its own runs"
)
_MEND = "correct the file; its times are in microseconds, with a point before the decimals"


def load_foreign(path: Path) -> FigureSource:
    """Reads a file of another tool: NVBench's JSON or CSV, gzipped or not, told apart by first character and name.

    Raises:
        UsageError: if there is no such file, or it is of neither format.
        RunFormatError: if it is of one of them and damaged.
    """
    text = _read_text(path)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".json") or text.lstrip().startswith("{"):
        document = _parse_json(path, text)
        if not (isinstance(document, dict) and isinstance(document.get("benchmarks"), list)):
            raise UsageError(f"{path} is JSON, but not NVBench's: it has no list of benchmarks", _UNDERSTOOD)
        return read_nvbench(path, document)
    columns = _header(text)
    if "run_id" in columns:
        raise UsageError(f"{path} is a part of a gdnbench run", f"give the run's folder: {path.parent}")
    if name.endswith(".csv") or any(column in columns for column in REQUIRED):
        return _read_csv(path, text)
    raise UsageError(f"{path} is neither NVBench's JSON nor CSV with figures", _UNDERSTOOD)


def _read_text(path: Path) -> str:
    try:
        data = read_regular(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", _UNDERSTOOD) from error
    if data.startswith(_GZIP):
        try:
            data = unpack(data)
        except ValueError as error:
            raise RunFormatError(f"{path} is damaged: {error}", "copy it again from where it was written") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} holds more than {MOST_BYTES >> 20} MiB, which no table of figures does", _UNDERSTOOD)
    try:
        return data.decode("utf-8-sig")  # spreadsheets put a byte order mark before CSV
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: {error}", _UNDERSTOOD) from error


def _parse_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "was the program that wrote it stopped? run it again, or copy the file again"
        raise RunFormatError(f"{path} is cut off or not JSON: {error}", hint) from error


def _header(text: str) -> list[str]:
    return [cell.strip() for cell in text.partition("\n")[0].split(",")]


def _read_csv(path: Path, text: str) -> FigureSource:
    """The figures of a CSV file with the columns `REQUIRED`, any of `OPTIONAL`, and axes of the op.

    An empty cell takes a default: the default size of an axis, the op `DEFAULT_OP`, an unknown GPU and timer. An empty
    time is a kernel that was not measured. RunFormatError is raised if a column is missing, a cell that should be a
    number is not, a kernel comes twice, or the file is of several GPUs.
    """
    figures: dict[tuple[str, Workload, str], Figure] = {}
    gpus = set()
    for line, row in _rows(path, text):
        try:
            figure = _figure_of_row(row)
        except (ValueError, ShapeError, UnknownNameError) as error:
            raise RunFormatError(f"{path} line {line}: {error}", _MEND) from error
        if figure.key in figures:
            message = f"{path} line {line}: {figure.label} at {figure.workload} is there a second time"
            raise RunFormatError(message, "give each kernel one row for each workload and timer")
        figures[figure.key] = figure
        gpus.add(gpu_slug(row["gpu"]) if row.get("gpu") else "")
    if not figures:
        raise RunFormatError(f"{path} holds no figures", "it has a header and no rows below it")
    if len(gpus) > 1:
        found = ", ".join(sorted(gpu or "unknown" for gpu in gpus))
        raise RunFormatError(f"{path} is of several GPUs ({found})", "give each GPU a file of its own")
    return FigureSource(
        name=path.name,
        kind=SourceKind.FOREIGN,
        gpu=gpus.pop(),
        figures=tuple(figures.values()),
        warnings=tuple(_warnings(_header(text), {figure.op for figure in figures.values()})),
    )


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
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
        raise RunFormatError(f"{path} line {reader.line_num} is not CSV: {error}", "is the file cut off?") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        found = ", ".join(filter(None, columns))[:200] or "none"
        hint = f"it has {found}; cells are separated by commas. for NVBench, give its JSON file (--json) instead"
        raise RunFormatError(f"{path} lacks the column {' and '.join(missing)}", hint)
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise RunFormatError(f"{path} has the column {', '.join(twice)} twice", "keep one of them")


def _figure_of_row(row: Mapping[str, str]) -> Figure:
    if not row["kernel"]:
        raise ValueError("kernel is empty")
    kernel, params = split_label(row["kernel"])
    time_us = read_microseconds(row, "time_us")
    low_us, high_us = read_microseconds(row, "time_lo_us"), read_microseconds(row, "time_hi_us")
    if low_us > time_us or high_us < time_us:
        raise ValueError(f"the time {time_us:g} lies outside its interval, {low_us:g} to {high_us:g}")
    measured, op = not math.isnan(time_us), row.get("op") or DEFAULT_OP
    return Figure(
        op=op,
        kernel=kernel,
        label=row["kernel"],
        params=params,
        workload=read_axes({column: cell for column, cell in row.items() if cell}, op_named(op).workloads),
        role=role_by_name(kernel),
        timer=row.get("timer", ""),
        time_us=time_us,
        low_us=low_us,
        high_us=high_us,
        status=Status.OK if measured else Status.NOT_RUN,
        reason="" if measured else "the file gives no time",
    )


def read_microseconds(row: Mapping[str, str], column: str) -> float:
    """Returns a positive number, or NaN if the cell is empty or the column is missing."""
    text = row.get(column, "")
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{column} is {text[:40]!r}, which is not a time in microseconds")
    return value


def _warnings(columns: list[str], ops: Collection[str]) -> Iterator[str]:
    known = {*REQUIRED, *OPTIONAL, *(name for op in ops for name in op_named(op).workloads.names)}
    ignored = [name for name in columns if name and name not in known]
    if ignored:
        yield f"columns that gdnbench does not know were ignored: {', '.join(ignored)}"
    for assumed in filter(None, (assumed_sizes(columns, op_named(op).workloads) for op in sorted(ops))):
        yield f"the file does not give the workload in full: {assumed} is assumed"


TIMER = "nvbench"
BURN_IN = 0  # the round that warms the GPU up
_MEAN, _MEDIAN = "nv/cold/time/gpu/mean", "nv/cold/time/gpu/median"
_CLOCK = "nv/cold/sm_clock_rate/mean"
_ROUND = re.compile(r"r(?P<round>\d+)/(?P<name>.+)", re.DOTALL)
_CONTROL = "@again"
_WRITE_AGAIN = "write it again with NVBench's --json, or give CSV with the columns kernel and time_us"


@dataclass(frozen=True)
class _State:
    """One state of one benchmark.

    `round` is None if the name has none; `axes` are values as text, in NVBench's order; `device` is NVBench's number of
    the GPU. `time_us` is the mean of its samples, else their median, NaN without either, and then `reason` says why;
    `is_invalid` says that the mean is not a time: NaN, infinite, null or 0. `sm_mhz` is the mean SM clock.
    """

    benchmark: str
    round: int | None
    axes: tuple[tuple[str, str], ...]
    device: int | None
    time_us: float
    sm_mhz: float
    reason: str
    is_invalid: bool = False


def read_nvbench(path: Path, document: Mapping[str, Any]) -> FigureSource:
    """The figures of an NVBench file, whose `benchmarks` are a list.

    A case of a gdnbench run gives one figure of all its rounds, without the burn-in and without the control. Any other
    state gives one figure: its axes that are named like a workload's make the workload, the others its params.
    RunFormatError is raised if the file is not as NVBench writes it, a state comes twice, the GPUs are several, or
    nothing was measured.
    """
    try:
        devices = {device["id"]: device for device in document.get("devices") or ()}
        states = [state for benchmark in document["benchmarks"] for state in _states(benchmark)]
        used = {state.device for state in states} & devices.keys()
        gpus = {gpu_slug(devices[number]["name"]) for number in used}
        figures = tuple(_nvbench_figures(states, several_gpus=len(used) > 1))
        conditions = _conditions([devices[number] for number in used])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ShapeError) as error:
        raise RunFormatError(f"{path} is not as NVBench writes it: {error!r}", _WRITE_AGAIN) from error
    if not figures:
        raise RunFormatError(f"{path} holds no measurements", "NVBench writes them when it ends: did it?")
    if len(gpus) > 1:
        raise RunFormatError(f"{path} is of several GPUs ({', '.join(sorted(gpus))})", "measure on one: nvbench -d 0")
    return FigureSource(
        name=path.name,
        kind=SourceKind.FOREIGN,
        gpu=gpus.pop() if gpus else "",
        figures=figures,
        conditions=conditions,
        warnings=tuple(_nvbench_warnings(states)),
    )


def _states(benchmark: Mapping[str, Any]) -> Iterator[_State]:
    numbered = _ROUND.fullmatch(benchmark["name"])
    for state in benchmark["states"]:
        values = {summary["tag"]: summary for summary in state["summaries"] or ()}
        mean_s, median_s = _value(values.get(_MEAN)), _value(values.get(_MEDIAN))
        is_invalid = _MEAN in values and not mean_s > 0
        time_us = (median_s if _MEAN not in values else mean_s) * 1e6
        reason = "" if time_us > 0 else f"the file has no {_MEAN}"
        if is_invalid:
            mean = _stored(values[_MEAN])
            reason = f"its {_MEAN} is {'null' if mean is None else mean}, which is no time; measure it again"
        if state.get("is_skipped"):
            time_us, reason = math.nan, f"NVBench skipped it: {state.get('skip_reason') or 'no reason given'}"
        yield _State(
            benchmark=numbered["name"] if numbered else benchmark["name"],
            round=int(numbered["round"]) if numbered else None,
            axes=tuple((axis["name"], str(axis["value"])) for axis in state.get("axis_values") or ()),
            device=state.get("device"),
            time_us=time_us if time_us > 0 else math.nan,
            sm_mhz=_value(values.get(_CLOCK)) / 1e6,
            reason=reason,
            is_invalid=is_invalid and not state.get("is_skipped"),
        )


def _value(summary: Mapping[str, Any] | None) -> float:
    value = _stored(summary)
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else math.nan


def _stored(summary: Mapping[str, Any] | None) -> Any:
    return next((datum["value"] for datum in (summary["data"] if summary else ()) if datum["name"] == "value"), None)


def _nvbench_figures(states: Sequence[_State], *, several_gpus: bool) -> Iterator[Figure]:
    last_round = max((state.round or 0 for state in states), default=0)
    groups: dict[Any, list[_State]] = {}
    for state in states:
        groups.setdefault((state.benchmark, state.axes, state.device if several_gpus else None), []).append(state)
    for (benchmark, axes, device), group in groups.items():
        label, workload = _label_and_workload(benchmark, dict(axes))
        if label.endswith(_CONTROL):
            continue
        if device is not None:
            label += f":Device={device}"
        if len({state.round for state in group}) < len(group):
            raise ValueError(f"{label} at {workload} is there twice")
        yield _figure_of_rounds(label, workload, group, last_round)


def _label_and_workload(benchmark: str, axes: Mapping[str, str]) -> tuple[str, Workload]:
    known = op_named(DEFAULT_OP).workloads
    name, workload = read_case_id(benchmark, known) or (benchmark, read_axes(axes, known))
    params = {axis: parse_value(value) for axis, value in axes.items() if axis not in known.names}
    return join_label(name, Params(params)), workload


def _figure_of_rounds(label: str, workload: Workload, group: list[_State], last_round: int) -> Figure:
    kernel, params = split_label(label)
    rounds_us = _rounds_us(group, last_round)
    measured = [state for state in group if state.round != BURN_IN]
    times_us = np.array([state.time_us for state in measured])
    invalid = [state.reason for state in measured if state.is_invalid]
    if invalid:  # what else it holds is of the same measurement
        times_us[:] = rounds_us[:] = math.nan
    reason = next((state.reason for state in measured if state.reason), "only its burn-in was measured")
    reason, has_time = (*invalid, reason)[0], bool(np.isfinite(times_us).any())
    low_us = high_us = math.nan
    if has_time and np.isfinite(rounds_us).sum() > 1:
        interval = round_interval(rounds_us)
        low_us, high_us = interval.low, interval.high
    return Figure(
        op=DEFAULT_OP,
        kernel=kernel,
        label=label,
        params=params,
        workload=workload,
        role=role_by_name(kernel),
        timer=TIMER,
        time_us=median_known(times_us),
        low_us=low_us,
        high_us=high_us,
        rounds_us=rounds_us,
        sm_mhz=median_known([state.sm_mhz for state in measured]),
        status=Status.OK if has_time else Status.FAILED,
        reason="" if has_time else reason,
    )


def _rounds_us(group: list[_State], last_round: int) -> FloatArray:
    """Round times, shape (last_round,), NaN for a missing round; empty where the benchmark is not of a round."""
    if any(state.round is None for state in group):
        return np.empty(0)
    rounds_us = np.full(last_round, np.nan)
    for state in group:
        if state.round:  # the burn-in is 0
            rounds_us[state.round - 1] = state.time_us
    return rounds_us


def _conditions(devices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The conditions of a run that NVBench knows of its one GPU."""
    if len(devices) != 1:
        return {}
    (device,) = devices
    known = {"highest SM clock": device.get("sm_default_clock_rate"), "ECC": device.get("ecc_state")}
    return {
        name: str(value if isinstance(value, bool) else round(value / 1e6))
        for name, value in known.items()
        if value is not None
    }


def _nvbench_warnings(states: Sequence[_State]) -> Iterator[str]:
    yield "times are NVBench's means; those of gdnbench's runs leave slow samples out, and read up to 1 % less"
    known = op_named(DEFAULT_OP).workloads
    if any(not known.case_id.fullmatch(state.benchmark) and assumed_sizes(dict(state.axes), known) for state in states):
        yield f"the file does not give workloads in full: missing axes are those of {known.default}"
