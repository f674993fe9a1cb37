"""`measurements.csv`: one row per case, one more per further clock, and the errors by the contest's measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

from gdnbench.codec import convert, convert_cells
from gdnbench.errors import RunFormatError
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import CONTEST_TOLERANCE, Params, parse_value
from gdnbench.model.measurement import InputsEffect, Measurement, Timing, Versus
from gdnbench.model.status import CLOCKS, Bound, Clock, Role, Status, Timer
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.store import schema
from gdnbench.store.files import DAMAGED, MEASUREMENTS, Row, read_rows, write_table
from gdnbench.store.info import RunInfo, read_axes, read_info, refuse_step

_BEFORE_PARAMS = ("run_id", "timestamp", "gpu", "op", "kernel", "label", "preset", "role")
_TIMES = (
    *("time_us", "time_lo_us", "time_hi_us", "median_us", "min_us", "p10_us", "p90_us"),
    *("noise", "cpu_time_us", "sm_mhz"),
)
_TIMING = ("samples", "rounds", *_TIMES, "bytes", "bandwidth_gbs", "sol")
_INPUTS = ("inputs_worst", "inputs_best", "inputs_ratio", "inputs_lo", "inputs_hi")
_LATER_TIMING = ("tflops", "bound", "mean_us", "sol_lo", "sol_hi")  # columns that older files lack
_SINCE_2 = ("workload", "profile", *_LATER_TIMING, *_INPUTS)
_VERSUS = {
    **{"vs_baseline": "speedup", "vs_lo": "low", "vs_hi": "high"},
    **{name: name for name in ("verdict", "more_rounds", "baseline")},
}
"""The columns of a comparison, and the fields of `Versus` in them."""
_BUILD = ("launches", "registers", "shared_bytes", "spill_bytes")
_AFTER_PARAMS = ("timer", *_TIMING, *_VERSUS, *_BUILD, "status", "reason", "warnings")
_SEPARATOR = "; "
_ROUNDED = 1 + 1e-5  # what six digits may move a value by, against the end of its own interval

_Verdict = Literal["faster", "slower", "same", "unclear"]


def write_measurements(folder: Path, info: RunInfo, measurements: Sequence[Measurement]) -> None:
    """Writes `measurements.csv`; every param of any kernel has a column, empty where a kernel lacks it."""
    params = sorted({name for each in measurements for name in each.case.variant.params})
    place = ("workload", "profile", *info.workloads.names)
    columns = (*_BEFORE_PARAMS, *params, *place, *_AFTER_PARAMS, *_LATER_TIMING, *_INPUTS)
    write_table(folder / MEASUREMENTS, [measurement_row(info, each) for each in measurements], columns)


def measurement_row(info: RunInfo, measurement: Measurement) -> Row:
    """A measurement as one flat row, as the run's schema has it; what is not known is None."""
    case, timing, versus = measurement.case, measurement.timing, measurement.versus
    timed = ("timer", "samples", "rounds", *_TIMES, "bandwidth_gbs", "sol", *_LATER_TIMING)
    row: Row = {
        "run_id": info.run_id,
        "timestamp": info.timestamp,
        "gpu": info.gpu,
        "op": info.op,
        "kernel": case.variant.kernel,
        "label": case.label,
        "preset": case.variant.preset,
        "role": case.role.value,
        **case.variant.params,
        "workload": case.workload.key,
        "profile": case.workload.inputs,
        **case.workload.cells,
        "timer": measurement.clock or "",
        "bytes": measurement.nbytes,
        **{name: _known(getattr(measurement, name)) for name in _BUILD},
        "status": measurement.status.value,
        "reason": measurement.reason,
        "warnings": _SEPARATOR.join(measurement.warnings),
    }
    row |= {name: _known(getattr(timing, name)) for name in timed} if timing else {}
    row |= {name: getattr(versus, field) for name, field in _VERSUS.items()} if versus else {}
    row |= dict(zip(_INPUTS, astuple(measurement.inputs), strict=True)) if measurement.inputs else {}
    return {name: cell for name, cell in row.items() if info.schema > 1 or name not in _SINCE_2}


def read_run(folder: Path) -> tuple[RunInfo, list[Measurement]]:
    """A run's description, and a measurement for each of its cases; UsageError for a step, which has none."""
    refuse_step(folder)
    info, measurements = read_info(folder), read_measurements(folder)
    if len(measurements) != len(info.cases):
        lost = f"{folder} has {len(measurements)} measurements of {len(info.cases)} cases"
        raise RunFormatError(f"{lost}: measurements.csv is cut off", "the run is damaged; measure anew")
    return info, measurements


def read_measurements(folder: Path) -> list[Measurement]:
    """Reads `measurements.csv`: a row per case, by the run's own timer."""
    return read_by_clock(folder).get(None, [])


def read_clocks(folder: Path) -> dict[Clock, list[Measurement]]:
    """Reads the rows of the further clocks in `measurements.csv`; a run that has none gives none."""
    return {clock: rows for clock, rows in read_by_clock(folder).items() if clock}


def read_by_clock(folder: Path) -> dict[Clock | None, list[Measurement]]:
    """Reads all rows of `measurements.csv`, by the clock that took them; None is the run's own timer."""
    path, axes = folder / MEASUREMENTS, read_axes(folder)
    columns = (*_BEFORE_PARAMS, *axes.names, *_AFTER_PARAMS)
    by_clock: dict[Clock | None, dict[str, Measurement]] = {}
    for line, row in enumerate(read_rows(path, columns, lambda cells: _measurement(cells, axes)), start=2):
        if row.case.id in by_clock.setdefault(row.clock, {}):
            raise RunFormatError(f"{path} line {line}: {row.case.id} stands there twice", DAMAGED)
        by_clock[row.clock][row.case.id] = row
    return {clock: list(rows.values()) for clock, rows in by_clock.items()}


def _known(value: Any) -> Any:
    """None for the values that stand for "unknown": NaN, and -1 of a count."""
    return None if (isinstance(value, float) and math.isnan(value)) or value == -1 else value


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row of the file but for its params; what a case can lack has an empty cell."""

    kernel: schema.Name
    label: schema.Name
    preset: schema.MaybeName = ""
    role: Role
    workload: str = ""  # its key, of what has columns, too; schema 1 has none
    profile: schema.MaybeName = ""
    timer: Timer = ""
    samples: schema.Count = 0
    rounds: schema.Count = 0
    time_us: schema.Microseconds | None = None
    time_lo_us: schema.LowEnd = -math.inf
    time_hi_us: schema.HighEnd = math.inf
    median_us: schema.Microseconds = math.nan
    min_us: schema.Microseconds = math.nan
    p10_us: schema.Microseconds = math.nan
    p90_us: schema.Microseconds = math.nan
    noise: schema.NotNegative = math.nan
    cpu_time_us: schema.Microseconds = math.nan
    sm_mhz: schema.Positive = math.nan
    bytes: schema.Count
    bandwidth_gbs: schema.NotNegative = math.nan
    tflops: schema.NotNegative = math.nan
    bound: Bound = ""
    sol: schema.Positive = math.nan
    mean_us: schema.Microseconds = math.nan
    sol_lo: schema.LowEnd = math.nan
    sol_hi: schema.HighEnd = math.nan
    vs_baseline: schema.Positive | None = None
    vs_lo: schema.NotNegative | None = None
    vs_hi: schema.HighEnd | None = None
    verdict: _Verdict | None = None
    more_rounds: schema.Count | None = None
    baseline: schema.MaybeName = ""
    launches: schema.Count = 0
    registers: schema.Count = -1
    shared_bytes: schema.Count = -1
    spill_bytes: schema.Count = -1
    status: Status
    reason: str = ""
    warnings: str = ""
    inputs_worst: schema.MaybeName = ""
    inputs_best: schema.MaybeName = ""
    inputs_ratio: schema.Positive | None = None
    inputs_lo: schema.NotNegative = 0.0
    inputs_hi: schema.HighEnd = math.inf


def _measurement(cells: dict[str, str], axes: WorkloadSpec) -> Measurement:
    row = convert_cells(cells, _Row)
    ends = row.inputs_worst, row.inputs_best
    return Measurement(
        case=_case(row, cells, axes),
        timing=_timing(row),
        versus=_versus(row),
        nbytes=row.bytes,
        **{name: getattr(row, name) for name in ("status", "reason", *_BUILD)},
        warnings=tuple(row.warnings.split(_SEPARATOR)) if row.warnings else (),
        clock=next((clock for clock in CLOCKS if clock == row.timer), None),
        inputs=InputsEffect(*ends, row.inputs_ratio, row.inputs_lo, row.inputs_hi) if row.inputs_ratio else None,
    )


def _case(row: _Row, cells: dict[str, str], axes: WorkloadSpec) -> Case:
    fixed = {*_BEFORE_PARAMS, *_AFTER_PARAMS, *_SINCE_2, *axes.names}
    params = convert(
        {name: parse_value(text) for name, text in cells.items() if name not in fixed and text}, schema.ParamValues
    )
    label = row.label.removesuffix("@again") if row.role is Role.CONTROL else row.label
    variant = Variant(row.kernel, label, preset=row.preset, params=Params(params))
    workload = axes.from_cells(cells)
    if row.workload and row.workload != workload.key:
        raise ValueError(f"workload: {row.workload} is not {workload.key}, which the axes say")
    return Case(variant, workload, row.role)


def _timing(row: _Row) -> Timing | None:
    """The times of a row that has one: of the run's own timer, a row with its name; of a clock, one with a time."""
    if row.time_us is None:
        if row.timer and row.timer not in CLOCKS:
            raise ValueError("time_us: empty beside a timer")
        return None
    _check_inside("time_us", row.time_us, row.time_lo_us, row.time_hi_us)
    values = {name: getattr(row, name) for name in (*_TIMES, "bandwidth_gbs", "sol", *_LATER_TIMING)}
    return Timing(timer=row.timer, samples=row.samples, rounds=row.rounds, **values)


def _versus(row: _Row) -> Versus | None:
    if row.verdict is None:
        return None
    if row.vs_baseline is None or row.vs_lo is None or row.vs_hi is None:
        raise ValueError("vs_baseline: empty beside a verdict")
    _check_inside("vs_baseline", row.vs_baseline, row.vs_lo, row.vs_hi)
    return Versus(**{field: getattr(row, name) for name, field in _VERSUS.items()})


def _check_inside(column: str, value: float, low: float, high: float) -> None:
    if not low <= value * _ROUNDED or not value <= high * _ROUNDED:
        raise ValueError(f"{column}: {value:g} lies outside its interval, {low:g} to {high:g}")


def contest_errors(errors: Mapping[str, float | None], labels: Mapping[str, str]) -> dict[str, schema.ContestDocument]:
    """Of each kernel its largest error in units of the contest's tolerance, and the cases at which that is over 1."""
    found: dict[str, schema.ContestDocument] = {}
    for case_id, label in labels.items():
        if (error := errors.get(case_id)) is not None:
            first = schema.ContestDocument(tolerance=CONTEST_TOLERANCE, count=0, worst=error, case=case_id, failed=[])
            of = found.setdefault(label, first)
            of["count"] += 1
            of["failed"] += [case_id] if error > 1 else []
            if error > float(of["worst"]):
                of["worst"], of["case"] = error, case_id
    return found
