"""Reads NVBench's JSON: benchmarks, each with states, each with summaries, each with a tag and a value as text.

gdnbench's own runs have such a file, too. Their benchmarks are named for a round and a case,
`r03/decode-v4/B1_HQ4_HV8_K128_V128`, and the rounds of a case make one figure.

Times are means over a state's samples, the "GPU Time" of NVBench's own table. It gives medians as well, but in whole
ticks of 32 ns, which is 1 % of 3 µs. Over the 36 cases of 20261121-101900-h200-decode-main the means are 0.0 to
1.0 % above the run's interquartile means, the medians 0.6 % below to 1.8 % above.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
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
    parse_value,
    read_axes,
    read_case_id,
    role_by_name,
    split_label,
)
from gdnbench.catalog.catalog import op_named
from gdnbench.catalog.select import DEFAULT_OP
from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import round_interval

TIMER = "nvbench"
BURN_IN = 0  # the round that warms the GPU up
_MEAN, _MEDIAN = "nv/cold/time/gpu/mean", "nv/cold/time/gpu/median"
_CLOCK = "nv/cold/sm_clock_rate/mean"
_ROUND = re.compile(r"r(?P<round>\d+)/(?P<name>.+)", re.DOTALL)
_CONTROL = "@again"
_HINT = "write it again with NVBench's --json, or give CSV with the columns kernel and time_us"


@dataclass(frozen=True)
class _State:
    """One state of one benchmark.

    Attributes:
        round: None where the name has none.
        axes: values by axis, as text, in NVBench's order.
        device: NVBench's number of the GPU.
        time_us: mean of its samples, else their median; NaN where there is neither, or the mean is no time.
        sm_mhz: mean SM clock, MHz; NaN where unknown.
        reason: why there is no time.
        is_invalid: whether it has a mean that is no time, which samples that are none make: NaN, infinite, null or 0.
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
        figures = tuple(_figures(states, several_gpus=len(used) > 1))
        conditions = _conditions([devices[number] for number in used])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ShapeError) as error:
        raise RunFormatError(f"{path} is not as NVBench writes it: {error!r}", _HINT) from error
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
        warnings=tuple(_warnings(states)),
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
            reason = f"its {_MEAN} is {_told(values[_MEAN])}, which is no time; measure it again"
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
    """A summary's number; NaN where there is none."""
    value = _stored(summary)
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else math.nan


def _stored(summary: Mapping[str, Any] | None) -> Any:
    """What a summary holds for its number."""
    return next((datum["value"] for datum in (summary["data"] if summary else ()) if datum["name"] == "value"), None)


def _told(summary: Mapping[str, Any]) -> str:
    value = _stored(summary)
    return "null" if value is None else str(value)


def _figures(states: Sequence[_State], *, several_gpus: bool) -> Iterator[Figure]:
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
    kept = [state for state in group if state.round != BURN_IN]
    times_us = np.array([state.time_us for state in kept])
    invalid = [state.reason for state in kept if state.is_invalid]
    if invalid:  # what else it holds is of the same measurement
        times_us[:] = rounds_us[:] = math.nan
    reason = next((state.reason for state in kept if state.reason), "only its burn-in was measured")
    reason, measured = (*invalid, reason)[0], bool(np.isfinite(times_us).any())
    low_us = high_us = math.nan
    if measured and np.isfinite(rounds_us).sum() > 1:
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
        time_us=_median(times_us),
        low_us=low_us,
        high_us=high_us,
        rounds_us=rounds_us,
        sm_mhz=_median(np.array([state.sm_mhz for state in kept])),
        status=Status.OK if measured else Status.FAILED,
        reason="" if measured else reason,
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


def _median(values: FloatArray) -> float:
    present = values[np.isfinite(values)]
    return float(np.median(present)) if present.size else math.nan


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


def _warnings(states: Sequence[_State]) -> Iterator[str]:
    yield "times are NVBench's means; those of gdnbench's runs leave slow samples out, and read up to 1 % less"
    known = op_named(DEFAULT_OP).workloads
    if any(not known.case_id.fullmatch(state.benchmark) and assumed_sizes(dict(state.axes), known) for state in states):
        yield f"the file does not give workloads in full: missing axes are those of {known.default}"
