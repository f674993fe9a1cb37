"""`measurements.csv`: one row per case, and a further one for each clock that was read beside the run's own timer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model import (
    CLOCKS,
    Case,
    Clock,
    Measurement,
    Params,
    ParamValue,
    Role,
    Shape,
    Status,
    Timer,
    Timing,
    Variant,
    Versus,
)
from gdnbench.store.info import RunInfo
from gdnbench.store.table import Row, number, read_table, write_table

NAME = "measurements.csv"
_BEFORE_PARAMS = ("run_id", "timestamp", "gpu", "op", "kernel", "label", "preset", "role")
_AXES = ("B", "HQ", "HV", "K", "V")
_TIMES = (
    "time_us",
    "time_lo_us",
    "time_hi_us",
    "median_us",
    "min_us",
    "p10_us",
    "p90_us",
    "noise",
    "cpu_time_us",
    "sm_mhz",
)
_TIMING = ("samples", "rounds", *_TIMES, "bytes", "bandwidth_gbs", "sol")
_VERSUS = ("vs_baseline", "vs_lo", "vs_hi", "verdict", "more_rounds", "baseline")
_BUILD = ("launches", "registers", "shared_bytes", "spill_bytes")
_AFTER_PARAMS = (*_AXES, "timer", *_TIMING, *_VERSUS, *_BUILD, "status", "reason", "warnings")
_SEPARATOR = "; "


def write_measurements(folder: Path, info: RunInfo, measurements: Sequence[Measurement]) -> None:
    """Writes `measurements.csv`; every param of any kernel has a column, empty where a kernel lacks it."""
    params = sorted({name for each in measurements for name in each.case.variant.params})
    columns = (*_BEFORE_PARAMS, *params, *_AFTER_PARAMS)
    write_table(folder / NAME, [measurement_row(info, each) for each in measurements], columns)


def measurement_row(info: RunInfo, measurement: Measurement) -> Row:
    """A measurement as one flat row; what is not known is None."""
    case = measurement.case
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
        **case.shape.axes(),
        "timer": measurement.clock or "",
        "bytes": measurement.nbytes,
        **{name: _known(getattr(measurement, name)) for name in _BUILD},
        "status": measurement.status.value,
        "reason": measurement.reason,
        "warnings": _SEPARATOR.join(measurement.warnings),
    }
    return {**row, **_timing_cells(measurement.timing), **_versus_cells(measurement.versus)}


def read_measurements(folder: Path) -> list[Measurement]:
    """Reads `measurements.csv`: a row per case, by the run's own timer.

    Raises:
        RunFormatError: if it is missing, cut off or contradicts itself.
    """
    return [row for row in _read_all(folder) if row.clock is None]


def read_clocks(folder: Path) -> dict[Clock, list[Measurement]]:
    """Reads the rows of the further clocks in `measurements.csv`; a run that has none gives none.

    Raises:
        RunFormatError: if it is missing, cut off or contradicts itself.
    """
    clocks: dict[Clock, list[Measurement]] = {}
    for row in _read_all(folder):
        if row.clock:
            clocks.setdefault(row.clock, []).append(row)
    return clocks


def _read_all(folder: Path) -> list[Measurement]:
    measurements = []
    for line, row in enumerate(read_table(folder / NAME, (*_BEFORE_PARAMS, *_AFTER_PARAMS)), start=2):
        try:
            measurements.append(_measurement(row))
        except (ValueError, ShapeError) as error:
            hint = "the run is damaged; measure anew"
            raise RunFormatError(f"{folder / NAME} line {line}: {error}", hint) from error
    return measurements


def _timing_cells(timing: Timing | None) -> Row:
    if timing is None:
        return {}
    cells: Row = {name: _known(getattr(timing, name)) for name in ("timer", "samples", "rounds", *_TIMES)}
    return {**cells, "bandwidth_gbs": _known(timing.bandwidth_gbs), "sol": _known(timing.sol)}


def _versus_cells(versus: Versus | None) -> Row:
    if versus is None:
        return {}
    return {
        "vs_baseline": versus.speedup,
        "vs_lo": versus.low,
        "vs_hi": versus.high,
        "verdict": versus.verdict,
        "more_rounds": versus.more_rounds,
        "baseline": versus.baseline,
    }


def _known(value: Any) -> Any:
    """None for the values that stand for "unknown": NaN, and -1 of a count."""
    return None if (isinstance(value, float) and math.isnan(value)) or value == -1 else value


def _measurement(row: dict[str, str]) -> Measurement:
    clock = next((clock for clock in CLOCKS if clock == row["timer"]), None)
    has_time = bool(row["time_us"]) if clock else bool(row["timer"])
    return Measurement(
        case=_case(row),
        status=Status(row["status"]),
        reason=row["reason"],
        timing=_timing(row) if has_time else None,
        versus=_versus(row) if row["verdict"] else None,
        nbytes=int(row["bytes"]),
        launches=_count(row["launches"]),
        registers=_count(row["registers"]),
        shared_bytes=_count(row["shared_bytes"]),
        spill_bytes=_count(row["spill_bytes"]),
        warnings=tuple(row["warnings"].split(_SEPARATOR)) if row["warnings"] else (),
        clock=clock,
    )


def _case(row: dict[str, str]) -> Case:
    fixed = {*_BEFORE_PARAMS, *_AFTER_PARAMS}
    params = Params({name: _value(text) for name, text in row.items() if name not in fixed and text})
    role = Role(row["role"])
    label = row["label"].removesuffix("@again") if role is Role.CONTROL else row["label"]
    variant = Variant(row["kernel"], label, preset=row["preset"], params=params)
    return Case(variant, Shape(**{axis: int(row[axis]) for axis in _AXES}), role)


def _timing(row: dict[str, str]) -> Timing:
    values = {name: number(row[name]) for name in (*_TIMES, "bandwidth_gbs", "sol")}
    return Timing(timer=cast(Timer, row["timer"]), samples=int(row["samples"]), rounds=int(row["rounds"]), **values)


def _versus(row: dict[str, str]) -> Versus:
    return Versus(
        baseline=row["baseline"],
        speedup=number(row["vs_baseline"]),
        low=number(row["vs_lo"]),
        high=number(row["vs_hi"]),
        verdict=row["verdict"],
        more_rounds=int(row["more_rounds"]) if row["more_rounds"] else None,
    )


def _value(text: str) -> ParamValue:
    try:
        return int(text)
    except ValueError:
        return text


def _count(text: str) -> int:
    return int(text) if text else -1
