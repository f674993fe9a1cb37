"""The change of two runs as a whole, from their unchanged cases; a kernel's own change; and how large each usually is.

A stream time is the launch of its process, on its host, and the kernel. The launch is a constant in microseconds, the
same for all kernels. It is estimated from *unchanged cases*, which both runs measured and nobody changed, and
subtracted. A kernel time (CUPTI) has no launch; cards of one model differ in it by a factor near 1. Either is a random
effect, estimated by `stats.run_effect`; docs/comparing.md has the model and its check. Between GPU models nothing is
unchanged and nothing is subtracted.

The expected spreads are the standard deviations of one process, rounded up, over 34 runs of the same seven kernels on
nine H200 cards of three hosts and over the runs in `results/`; `stats.run_effect` corrects them by the unchanged cases.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache, cached_property

import numpy as np

from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.analyse.runs import VERSIONS
from gdnbench.catalog.catalog import op_named
from gdnbench.errors import UnknownNameError
from gdnbench.model.case import same_sources
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import USUAL_PROCESS_SD
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import IntArray
from gdnbench.stats.interval import Variance
from gdnbench.stats.paired import MeanTime, UnpairedLogRatio, mean_time, unpaired_log_ratio
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, joint_process
from gdnbench.stats.run_effect import PRIOR_DF, Peer, Prediction, RunEffect, Spread, estimate_run_effect
from gdnbench.store.samples import CaseRounds, processes_of

LAUNCH_OF_A_HOST_US = 1.0  # launches between hosts: an empty kernel takes 2.8, 3.1 and 4.4 µs on three kinds of host
KERNEL_TIME_OF_A_PROCESS = 0.002  # kernel times between processes on one card, relative: 0.1 %

KERNEL_TIME_OF_A_CARD = 0.01
"""Kernel times between cards of one model, relative: 0.4 to 2 % between cards of three hosts."""

STRAY_OF_A_HOST = 0.006
"""Stray of a stream time on a host from what all kernels there share, relative: FLA's at B=8 strays by 4 %."""

STRAY_OF_A_CARD = 0.004
"""Stray of a kernel time on a card from what all kernels there share, relative: 0.4 % up to decode's B=8."""

STRAY_OF_LARGE = 0.002  # the same of a kernel that moves `LARGE_BYTES`: 0.1 to 0.3 % at B=64 and more

LARGE_BYTES = 16 << 20

STRAY_OF_GAPS = 0.015
"""The same of a call of several launches, whose gaps are of the host: FLA unfused strays by 3.7 % from host to host."""

UNSHARED = 0.25
"""The part of what cards differ by that a kernel may not share, for instance because memory does not bind it."""

_KERNEL_TIME = "cupti"
_CPU = "cpu"


@cache
def own_sd(op: str, launches: int) -> float:
    """The relative standard deviation between processes of a kernel of so many launches: see `Op.process_sd`."""
    try:
        return op_named(op).own_sd(launches)
    except UnknownNameError:  # of an op that is not here
        return USUAL_PROCESS_SD[launches > 1]


def process_by_workload(rows: Iterable[Measurement], rounds: Mapping[str, CaseRounds]) -> IntArray:
    """The process of each round of a run of several workloads, from rows of one timer and rounds by case id."""
    by_workload: dict[object, list[CaseRounds]] = {}
    for row in rows:
        if row.case.id in rounds:
            by_workload.setdefault(row.case.workload, []).append(rounds[row.case.id])
    return joint_process([processes_of(each) for each in by_workload.values()])


def is_additive(timer: str) -> bool:
    """Whether the change common to all cases of a run is a constant in microseconds, as a launch is, or a factor."""
    return timer not in (_KERNEL_TIME, _CPU)


def expected_spread(left: Figure, right: Figure, *, plain: bool, other_card: bool) -> Spread:
    """The expected standard deviations of a case's change, in microseconds where `is_additive`, else in logarithms."""
    time_us = (left.time_us + right.time_us) / 2.0
    scale = _per_difference(left, right)
    if right.timer == _CPU:
        return Spread(stray=0.02 * scale, workload=0.01 * scale)
    own = own_sd(right.op, max(left.launches, right.launches))
    if right.timer == _KERNEL_TIME:
        of_card = _stray_of_a_card(right) if other_card else 0.0
        return Spread(math.hypot(math.hypot(own, 0.0015 / time_us) * scale, of_card), workload=0.001 * scale)
    of_host = STRAY_OF_A_HOST * time_us if other_card else 0.0
    return Spread(
        stray=math.hypot(math.hypot(_launching_us(right, plain=plain), own * time_us) * scale, of_host),
        workload=math.hypot(0.012, 0.0015 * time_us) * scale,
    )


def _stray_of_a_card(figure: Figure) -> float:
    if figure.launches > 1:
        return STRAY_OF_GAPS
    return STRAY_OF_A_CARD if figure.nbytes < LARGE_BYTES else STRAY_OF_LARGE


def _launching_us(figure: Figure, *, plain: bool) -> float:
    """The variation of a case's launches beside those of others, microseconds.

    An empty kernel ends before the launch has settled and varies most; several launches add up; in place, the L2 and
    the launch queue are uncontrolled.
    """
    if plain:
        return 0.08
    return 0.03 if is_empty(figure) else 0.01 * max(figure.launches, 1)


def is_empty(figure: Figure) -> bool:
    """Whether it is the empty floor, from which little can be estimated for other cases."""
    return figure.role is Role.FLOOR and figure.nbytes == 0


def expected_whole(left: Figure, right: Figure, *, same_card: bool) -> float:
    """The expected common change of all cases of two runs, in the unit of `expected_spread`."""
    scale = _per_difference(left, right)
    if right.timer == _CPU:
        return 0.05 * scale
    if right.timer == _KERNEL_TIME:
        of_process, of_place = KERNEL_TIME_OF_A_PROCESS, KERNEL_TIME_OF_A_CARD
    else:
        of_process, of_place = USUAL_LAUNCH_SD_US, LAUNCH_OF_A_HOST_US
    return math.hypot(of_process * scale, 0.0 if same_card else of_place * math.sqrt(2.0))


def _per_difference(left: Figure, right: Figure) -> float:
    """The standard deviation of a difference of two runs over that of a process: a run averages its processes."""
    return math.sqrt(sum(1.0 / max(len(np.unique(figure.processes)), 1) for figure in (left, right)))


_TOOLS = (*VERSIONS, "driver")  # conditions that may make another kernel of the same sources
PRESUMED = 0.01  # presumed change of a floor of changed sources, a relative standard deviation

_AGAIN = 8.0  # (2 sd)^2 of two A/A differences, each of two measurements, over the variance that a case strays by


class TimeKind(StrEnum):
    """The kind of time of a ratio."""

    STREAM = "stream"  # event to event, the launch included
    KERNEL = "kernel"  # first block's start to last block's end


class RunChange:
    """One run against another, by one kind of time; `presumed`: by floors whose sources did change."""

    def __init__(self, left: FigureSource, right: FigureSource) -> None:
        card = left.conditions.get("GPU", "")
        self.same_model = bool(left.gpu) and left.gpu == right.gpu
        other = right.conditions.get("GPU", "")
        self.same_card = bool(card) and card == other
        self.other_card = bool(card and other) and card != other
        pairs = _common_cases(left, right) if self.same_model else []
        alike = _same_tools(left, right)
        self.unchanged = tuple(pair for pair in pairs if _is_unchanged(*pair, alike=alike))
        self.presumed = not self.unchanged
        if self.presumed:
            # Without the baseline: if edited to be faster, it would look like a launch of many microseconds.
            self.unchanged = tuple(pair for pair in pairs if all(figure.role is Role.FLOOR for figure in pair))
        self._plain = "True" in {source.conditions.get("plain") for source in (left, right)}
        self._peers: dict[Hashable, Peer | None] = {}
        self._effects: dict[tuple[str, str], RunEffect] = {}

    def effect_on(self, left: Figure, right: Figure) -> RunEffect:
        """The change of unchanged cases of other kernels: microseconds for stream times, else logarithms."""
        key = right.kernel, right.timer
        if key not in self._effects:
            others = [pair for pair in self.unchanged if pair[1].kernel != right.kernel]
            self._effects[key] = self._estimate(others, left, right)
        return self._effects[key]

    @cached_property
    def effect(self) -> RunEffect | None:
        """The change of all unchanged cases, or None if there are none."""
        return self._estimate(list(self.unchanged), *self.unchanged[0]) if self.unchanged else None

    def peers(self, left: Figure, right: Figure) -> int:
        """The number of unchanged cases of other kernels from which the change of the runs is estimated."""
        return 0 if self.presumed else self.effect_on(left, right).peers

    def predict(self, left: Figure, right: Figure) -> Prediction:
        """Predicts from other kernels the change of a case that nobody changed.

        Kernel times of most kernels stray little between cards, and those of a few by ten times as much (decode-v3 by
        2 %), so that many that agree say little of another: its stray is not narrowed by theirs, and is Student's with
        few degrees of freedom.
        """
        spread = expected_spread(left, right, plain=self._plain, other_card=self.other_card)
        predicted = self.effect_on(left, right).predict(_place(right), spread)
        if right.timer == _KERNEL_TIME and self.other_card:
            own = max(predicted.own.value, spread.stray**2 + (UNSHARED * predicted.mean) ** 2)
            return replace(predicted, own=Variance(own, PRIOR_DF))
        return predicted

    def change(self, left: Figure, right: Figure, noise: float = 0.0) -> UnpairedLogRatio:
        """log(left / right) of a case's times, less the change of its run; both figures are of this kind of time.

        Its variances are of the rounds of either run, then of the case, its workload and its run. What the baselines'
        distance from themselves (`noise`, a log-ratio) exceeds the usual strays by widens the interval.
        """
        (before, after), predicted = _means(left, right), self.predict(left, right)
        parts = (predicted.own, predicted.of_workload, predicted.of_run)
        if is_additive(right.timer):
            bare = unpaired_log_ratio(after, before, launch_us=predicted.mean)
            # d log((left + m/2) / (right - m/2)) / dm
            slope = (1.0 / (before.mean_us + predicted.mean / 2) + 1.0 / (after.mean_us - predicted.mean / 2)) / 2.0
        else:
            bare, slope = unpaired_log_ratio(after, before), 1.0
            bare = UnpairedLogRatio(bare.mean + predicted.mean, bare.components)
        if math.isnan(bare.mean):  # the launch exceeds the time
            bare, slope = UnpairedLogRatio(math.log(before.mean_us / after.mean_us), bare.components), 0.0
        components = tuple(Variance(part.value * slope**2, part.df) for part in parts)
        beyond = noise**2 - _AGAIN * components[0].value
        return UnpairedLogRatio(bare.mean, (*bare.components, *components), math.sqrt(max(beyond, 0.0)))

    def _estimate(self, pairs: list[tuple[Figure, Figure]], left: Figure, right: Figure) -> RunEffect:
        peers: list[Peer] = []
        for one, other in pairs:
            case = other.label, other.params, other.timer, _place(other)
            if other.timer == right.timer:
                if case not in self._peers:
                    self._peers[case] = self._peer(one, other)
                peers += filter(None, [self._peers[case]])
        return estimate_run_effect(peers, expected_whole(left, right, same_card=self.same_card))

    def _peer(self, left: Figure, right: Figure) -> Peer | None:
        before, after = _means(left, right)
        error = before.error.value + after.error.value
        change = after.mean_us - before.mean_us
        if not is_additive(right.timer):
            error = before.error.value / before.mean_us**2 + after.error.value / after.mean_us**2
            change = math.log(after.mean_us / before.mean_us)
        if not math.isfinite(error):
            return None
        spread = expected_spread(left, right, plain=self._plain, other_card=self.other_card)
        if self.presumed:
            unit = left.time_us if is_additive(right.timer) else 1.0
            spread = replace(spread, stray=math.hypot(spread.stray, PRESUMED * unit))
        return Peer(_place(right), change, error, spread)


class RunPair:
    """Two runs by both kinds of time; `stream` are their stream times."""

    def __init__(self, left: FigureSource, right: FigureSource) -> None:
        self._sources = left, right
        self.stream = RunChange(left, right)

    @cached_property
    def kernel(self) -> RunChange:
        """The change of their kernel times."""
        left, right = self._sources
        return RunChange(left.by_kernel_time(), right.by_kernel_time())

    def of_kind(self, kind: TimeKind) -> RunChange:
        """The change of the runs by a kind of time."""
        return self.kernel if kind is TimeKind.KERNEL else self.stream

    def kind_of(self, left: Figure, right: Figure) -> TimeKind:
        """The times that judge a case: kernel times if both runs have them and hosts may differ, else stream times."""
        both = self._timed(left, right, TimeKind.KERNEL)
        return TimeKind.KERNEL if both and not self.stream.same_card else TimeKind.STREAM

    def peers(self, left: Figure, right: Figure, kind: TimeKind) -> int:
        """The number of unchanged cases of other kernels that tell the change of the runs by a kind of time."""
        timed = self._timed(left, right, kind)
        return self.of_kind(kind).peers(*timed) if timed else 0

    def change(self, left: Figure, right: Figure, kind: TimeKind, noise: float = 0.0) -> UnpairedLogRatio | None:
        """Returns a case's change by a kind of time, as `RunChange.change`, or None if a side has no rounds by it."""
        timed = self._timed(left, right, kind)
        of_kind = noise if kind is TimeKind.STREAM else 0.0  # the A/A noise is of stream times
        return self.of_kind(kind).change(*timed, of_kind) if timed else None

    @staticmethod
    def _timed(left: Figure, right: Figure, kind: TimeKind) -> tuple[Figure, Figure] | None:
        """Both figures with this kind of time as theirs, or None if a side has no rounds by it."""
        of_kernel = kind is TimeKind.KERNEL
        before, after = (left.by_kernel_time(), right.by_kernel_time()) if of_kernel else (left, right)
        return (before, after) if before and after and before.has_rounds and after.has_rounds else None


def _common_cases(left: FigureSource, right: FigureSource) -> list[tuple[Figure, Figure]]:
    ours, others = (
        {
            (figure.op, figure.label, figure.params, figure.workload, figure.timer): figure
            for figure in source.figures
            if figure.has_rounds
        }
        for source in (left, right)
    )
    return [(one, others[case]) for case, one in ours.items() if case in others and not is_empty(others[case])]


def _is_unchanged(one: Figure, other: Figure, *, alike: bool) -> bool:
    """Whether it is a floor, a baseline or, with the same tools, any kernel, of the same sources and tuner's choice."""
    if one.is_tuned_otherwise(other):
        return False
    is_firm = {one.role, other.role} <= {Role.FLOOR, Role.BASELINE}
    return same_sources(one.source_hash, other.source_hash) and (is_firm or (alike and bool(one.source_hash)))


def _same_tools(left: FigureSource, right: FigureSource) -> bool:
    both = [name for name in _TOOLS if name in left.conditions and name in right.conditions]
    return all(left.conditions[name] == right.conditions[name] for name in both)


def _means(*figures: Figure) -> list[MeanTime]:
    return [mean_time(figure.rounds_us, figure.processes) for figure in figures]


def _place(figure: Figure) -> tuple[str, Workload]:
    return figure.op, figure.workload
