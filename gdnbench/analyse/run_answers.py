"""The figures of a history, of a kernel in one run and its change between two, computed once and kept in the index."""

from __future__ import annotations

import math
from dataclasses import astuple

import msgspec

from gdnbench.analyse.figure import Figure, FigureSource, KernelTime
from gdnbench.analyse.run_change import RunPair, TimeKind, own_sd
from gdnbench.analyse.runs import StoredRun
from gdnbench.analyse.within_run import ratio_within_run
from gdnbench.model.declaration import Params, ParamValue
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Interval

CONFIDENCE = 0.95
_FIELDS = ("kernel", "timer", "time_us", "low_us", "high_us", "role", "status", "reason", "source_hash")
_Ends = tuple[float, float, float]


class _InRun(msgspec.Struct, array_like=True):
    kernel: str
    timer: str
    time_us: float
    low_us: float
    high_us: float
    role: Role
    status: Status
    reason: str
    source_hash: str
    params: dict[str, ParamValue]
    ratio: _Ends | None
    kernel_us: float | None


class Since(msgspec.Struct, array_like=True):
    """What a kernel changed by from one run to another.

    Attributes:
        ends: estimate and ends of the interval of the time before / the time now.
        kind: of which times that is.
        scatter: standard deviation of one run's time where nothing changed, relative.
    """

    ends: _Ends
    kind: TimeKind
    scatter: float


def read_in_run(run: StoredRun, label: str, workload: Workload, anchor: str) -> tuple[Figure, Interval | None]:
    """A kernel's figure in a run, without its rounds, and its ratio to the anchor by the rounds that both have.

    The ratio is None where one of them has no rounds, or they have none in common.
    """

    def read(_: object) -> _InRun:
        figure = _find(run.source, label, workload)
        known = {name: getattr(figure, name) for name in _FIELDS}
        kernel_us = figure.kernel_time.time_us if figure.kernel_time else None
        ratio = _ratio(run.source, figure, anchor)
        return _InRun(params=dict(figure.params), ratio=ratio, kernel_us=kernel_us, **known)

    question = f"row {_asked(run.op, label, workload)} {anchor}"
    found = run.index.answer(question, run.folder, run.stamp, _InRun, read)
    known = {name: getattr(found, name) for name in _FIELDS}
    known["kernel_time"] = KernelTime(time_us=found.kernel_us) if found.kernel_us else None
    figure = Figure(op=run.op, label=label, workload=workload, params=Params(found.params), **known)
    return figure, Interval(*found.ratio) if found.ratio else None


def read_since(before: StoredRun, run: StoredRun, label: str, workload: Workload) -> Since:
    """What a kernel that has rounds in two runs changed by from one to the other."""

    def read(_: object) -> Since:
        runs = RunPair(before.source, run.source)
        old, new = (_find(each.source, label, workload) for each in (before, run))
        kind = runs.kind_of(old, new)
        change = runs.change(old, new, kind)
        assert change
        # The components after those of the rounds are of a difference of two runs.
        scatter = math.sqrt(sum(part.value for part in change.log_ratio.components[2:]) / 2.0)
        return Since(astuple(change.log_ratio.speedup(CONFIDENCE)), kind, scatter)

    question, stamp = f"since {_asked(run.op, label, workload)}", f"{before.name} {before.stamp} {run.stamp}"
    return run.index.answer(question, run.folder, stamp, Since, read)


def _asked(op: str, label: str, workload: Workload) -> str:
    """What is asked of, and what an op declares that answers depend on."""
    return f"{label} {workload.cells} {workload.inputs} {[own_sd(op, launches) for launches in (1, 2)]}"


def _find(source: FigureSource, label: str, workload: Workload) -> Figure:
    return next(each for each in source.figures if each.label == label and each.workload == workload)


def _ratio(source: FigureSource, figure: Figure, anchor: str) -> _Ends | None:
    other = next((each for each in source.figures if (each.label, each.workload) == (anchor, figure.workload)), None)
    if other is None or not figure.rounds_us.size or figure.rounds_us.shape != other.rounds_us.shape:
        return None
    paired = ratio_within_run(source, [figure], [other])
    return astuple(paired.speedup(CONFIDENCE)) if paired.n else None
