"""NVBench's JSON: benchmarks, each with states, each with summaries, each with a tag and a value as text.

gdnbench's own runs keep such a file too. Their benchmarks are named for a round and a case,
`r03/decode-v4/B1_HQ4_HV8_K128_V128`, and the rounds of a case make one figure.

Times are means over a state's samples, the "GPU Time" of NVBench's own table. It gives medians as well, but in whole
ticks of 32 ns, which is 1 % of 3 µs. Over the 36 cases of results/20261121-101900-h200-decode-main the means are 0.0 to
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

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.compare.foreign_csv import OP
from gdnbench.compare.naming import join_label, parse_value, split_label
from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model import Params, Role, Shape, Status, gpu_slug
from gdnbench.stats import FloatArray, round_interval

TIMER = "nvbench"
BURN_IN = 0  # the round that warms the GPU up
_MEAN, _MEDIAN = "nv/cold/time/gpu/mean", "nv/cold/time/gpu/median"
_CLOCK = "nv/cold/sm_clock_rate/mean"
_ROUND = re.compile(r"r(?P<round>\d+)/(?P<name>.+)", re.DOTALL)
_CASE = re.compile(r"(?P<label>.+)/B(?P<B>\d+)_HQ(?P<HQ>\d+)_HV(?P<HV>\d+)_K(?P<K>\d+)_V(?P<V>\d+)", re.DOTALL)
_CONTROL = "@again"
_HINT = "write it anew with NVBench's --json, or give CSV with the columns kernel and time_us"


@dataclass(frozen=True)
class _Reading:
    """One state of one benchmark.

    Attributes:
        name: the benchmark's, without its round.
        round: None where the name has none.
        axes: values by axis, as text, in NVBench's order.
        device: NVBench's number of the GPU.
        time_us: mean of its samples, else their median; NaN where there is neither.
        sm_mhz: mean SM clock; NaN where unknown.
        reason: why there is no time.
    """

    name: str
    round: int | None
    axes: tuple[tuple[str, str], ...]
    device: int | None
    time_us: float
    sm_mhz: float
    reason: str


def read_nvbench(path: Path, document: Mapping[str, Any]) -> Source:
    """The figures of an NVBench file.

    A case of a gdnbench run gives one figure of all its rounds, without the burn-in and without the control. Any
    other state gives one figure; its axes named like a shape's are its shape, the others its params.

    Args:
        path: what to call it.
        document: the file's JSON, with a list of `benchmarks`.

    Raises:
        RunFormatError: if something is not where NVBench puts it, a state comes twice, the GPUs are several, or
            nothing was measured.
    """
    try:
        devices = {device["id"]: device for device in document.get("devices") or ()}
        readings = [each for benchmark in document["benchmarks"] for each in _readings(benchmark)]
        used = {each.device for each in readings} & devices.keys()
        gpus = {gpu_slug(devices[number]["name"]) for number in used}
        figures = tuple(_figures(readings, several_gpus=len(used) > 1))
        conditions = _conditions([devices[number] for number in used])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ShapeError) as error:
        raise RunFormatError(f"{path} is not as NVBench writes it: {error!r}", _HINT) from error
    if not figures:
        raise RunFormatError(f"{path} holds no measurements", "NVBench writes them when it ends: did it?")
    if len(gpus) > 1:
        raise RunFormatError(f"{path} is of several GPUs ({', '.join(sorted(gpus))})", "measure on one: nvbench -d 0")
    return Source(
        name=path.name,
        kind=Kind.FOREIGN,
        gpu=gpus.pop() if gpus else "",
        figures=figures,
        conditions=conditions,
        warnings=tuple(_doubts(readings)),
    )


def _readings(benchmark: Mapping[str, Any]) -> Iterator[_Reading]:
    numbered = _ROUND.fullmatch(benchmark["name"])
    for state in benchmark["states"]:
        values = {summary["tag"]: summary for summary in state["summaries"] or ()}
        mean_s, median_s = _value(values.get(_MEAN)), _value(values.get(_MEDIAN))
        time_us = (median_s if math.isnan(mean_s) else mean_s) * 1e6
        reason = "" if time_us > 0 else f"the file has no {_MEAN}"
        if state.get("is_skipped"):
            time_us, reason = math.nan, f"NVBench skipped it: {state.get('skip_reason') or 'no reason given'}"
        yield _Reading(
            name=numbered["name"] if numbered else benchmark["name"],
            round=int(numbered["round"]) if numbered else None,
            axes=tuple((axis["name"], str(axis["value"])) for axis in state.get("axis_values") or ()),
            device=state.get("device"),
            time_us=time_us if time_us > 0 else math.nan,
            sm_mhz=_value(values.get(_CLOCK)) / 1e6,
            reason=reason,
        )


def _value(summary: Mapping[str, Any] | None) -> float:
    """A summary's number; NaN where there is none."""
    for datum in summary["data"] if summary else ():
        if datum["name"] == "value":
            number = math.nan if datum["value"] is None else float(datum["value"])
            return number if math.isfinite(number) else math.nan
    return math.nan


def _figures(readings: Sequence[_Reading], *, several_gpus: bool) -> Iterator[Figure]:
    last = max((each.round or 0 for each in readings), default=0)
    groups: dict[Any, list[_Reading]] = {}
    for each in readings:
        groups.setdefault((each.name, each.axes, each.device if several_gpus else None), []).append(each)
    for (name, axes, device), group in groups.items():
        label, shape = _label_and_shape(name, dict(axes))
        if label.endswith(_CONTROL):
            continue
        if device is not None:
            label += f":Device={device}"
        if len({each.round for each in group}) < len(group):
            raise ValueError(f"{label} at {shape} is there twice")
        yield _figure(label, shape, group, last)


def _label_and_shape(name: str, axes: dict[str, str]) -> tuple[str, Shape]:
    case = _CASE.fullmatch(name)
    sizes = {axis: int(axes.pop(axis)) for axis in Shape().axes() if axis in axes}
    if case:
        sizes |= {axis: int(case[axis]) for axis in Shape().axes()}
    params = Params({axis: parse_value(value) for axis, value in axes.items()})
    return join_label(case["label"] if case else name, params), Shape(**sizes)


def _figure(label: str, shape: Shape, group: list[_Reading], last: int) -> Figure:
    kernel, params = split_label(label)
    rounds_us = _rounds_us(group, last)
    kept = [each for each in group if each.round != BURN_IN]
    times_us = np.array([each.time_us for each in kept])
    reason = next((each.reason for each in kept if each.reason), "only its burn-in was measured")
    measured = bool(np.isfinite(times_us).any())
    low_us = high_us = math.nan
    if measured and np.isfinite(rounds_us).sum() > 1:
        interval = round_interval(rounds_us)
        low_us, high_us = interval.low, interval.high
    return Figure(
        op=OP,
        kernel=kernel,
        label=label,
        params=params,
        shape=shape,
        role=Role.FLOOR if "-floor-" in kernel else Role.KERNEL,
        timer=TIMER,
        time_us=_median(times_us),
        low_us=low_us,
        high_us=high_us,
        rounds_us=rounds_us,
        sm_mhz=_median(np.array([each.sm_mhz for each in kept])),
        status=Status.OK if measured else Status.FAILED,
        reason="" if measured else reason,
    )


def _rounds_us(group: list[_Reading], last: int) -> FloatArray:
    """The times by round, NaN for a missing one; empty where the benchmark is not of a round."""
    if any(each.round is None for each in group):
        return np.empty(0)
    rounds_us = np.full(last, np.nan)
    for each in group:
        if each.round:  # the burn-in is 0
            rounds_us[each.round - 1] = each.time_us
    return rounds_us


def _median(values: FloatArray) -> float:
    present = values[np.isfinite(values)]
    return float(np.median(present)) if present.size else math.nan


def _conditions(devices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Of what `conditions_of` tells of a run, what NVBench knows of its one GPU."""
    if len(devices) != 1:
        return {}
    (device,) = devices
    known = {"highest SM clock": device.get("sm_default_clock_rate"), "ECC": device.get("ecc_state")}
    return {
        name: str(value if isinstance(value, bool) else round(value / 1e6))
        for name, value in known.items()
        if value is not None
    }


def _doubts(readings: Sequence[_Reading]) -> Iterator[str]:
    yield "times are NVBench's means; those of gdnbench's runs leave slow samples out, and read up to 1 % less"
    axes = Shape().axes()
    if any(not _CASE.fullmatch(each.name) and not axes.keys() <= dict(each.axes).keys() for each in readings):
        yield f"the file does not give shapes in full: missing axes are those of {Shape()}"
