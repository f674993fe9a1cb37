"""A race: a coarse pass over all points, then ever fewer points in ever more rounds, until the best is known.

`stats.multiple.compare_with_best` decides. Each segment is a process of its own, so that a point cannot win by the
memory layout of one process. The intervals include the differences between processes, so that the coarse pass, a single
process, drops a point only if it is slower by more than a process can add.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.errors import UsageError
from gdnbench.measure.schedule import START_S, Segment, round_cost_s
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.op import USUAL_PROCESS_SD
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Verdict
from gdnbench.stats.multiple import BestComparison, compare_with_best
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects
from gdnbench.store.settings import trim_of

COARSE_ROUNDS = 7
FEWEST_ROUNDS = 2  # an interval needs two
FEWEST_ROUNDS_A_SEGMENT = 5  # fewer do not justify a worker's start
MOST_ROUNDS_A_SEGMENT = 41
MOST_ROUNDS = 400  # points that are still undecided then lie on the margin's edge
COARSE_OWN_SD = 0.005
"""Relative SD that the coarse pass's process may add to a time: five times most kernels', since a drop is final."""
RaceGroup = tuple[str, Workload]
"""Kernel and workload, whose points race against each other."""


class Race:
    """Races the points of each kernel and workload against each other.

    Args:
        budget_s: limit of measuring in seconds; the last segment is cut to fit.
        margin: relative difference that counts as none.
        confidence: for each group, that its best point is not dropped.
        swept: the kernels whose points race; other cases are measured beside them.
        clock: returns seconds.
    """

    def __init__(
        self,
        budget_s: float,
        margin: float,
        confidence: float,
        device: Device,
        swept: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget_s = budget_s
        self._margin = margin
        self._confidence = confidence
        self._device = device
        self._swept = frozenset(swept)
        self._clock = clock
        self._deadline: float | None = None

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The coarse pass, then the points that may still be the best, or None; raises UsageError if time is short."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        if not any(case.is_point_of(self._swept) for case in left):
            return None
        if self._deadline is None:
            self._deadline = self._clock() + self._budget_s
        costs_s = {case.id: round_cost_s(samples[case.id], warm_us[case.id], self._device) for case in left}
        done = {case.id: len(collected.samples.get(case.id, ())) for case in left}
        if len(set(done.values())) == 1 and max(done.values()) < COARSE_ROUNDS:
            return self._coarse_segment(left, max(done.values()), sum(costs_s.values()))
        return self._race_segment(left, collected, costs_s, max(done.values()))

    def _coarse_segment(self, cases: tuple[Case, ...], done: int, round_s: float) -> Segment | None:
        affordable = done + self._affordable(round_s)
        if affordable < FEWEST_ROUNDS:
            raise _too_small(self._budget_s, len(cases), round_s)
        rounds = min(COARSE_ROUNDS, affordable)
        return Segment("coarse", cases, rounds) if rounds > done else None

    def _race_segment(
        self, cases: tuple[Case, ...], collected: Collected, costs_s: Mapping[str, float], done: int
    ) -> Segment | None:
        groups = group_cases(cases, self._swept)
        rounds = RoundTimes(collected, self._confidence, trim_of(self._device))
        fields = judge_groups(groups, rounds, collected, self._margin, self._confidence, COARSE_OWN_SD)
        still = {group: survivors(field, collected) for group, field in fields.items()}
        wanted = max((self._more_rounds(field, still[group]) for group, field in fields.items()), default=0)
        racing = {
            case.id
            for group, field in fields.items()
            if self._more_rounds(field, still[group])
            for case in still[group]
        }
        open_workloads = {case.workload for case in cases if case.id in racing}
        entered = tuple(
            case
            for case in cases
            if case.id in racing or (not case.is_point_of(self._swept) and case.workload in open_workloads)
        )
        if not entered:
            return None
        affordable = self._affordable(sum(costs_s[case.id] for case in entered))
        more = min(max(wanted, FEWEST_ROUNDS_A_SEGMENT), MOST_ROUNDS_A_SEGMENT, affordable, MOST_ROUNDS - done)
        if more < FEWEST_ROUNDS_A_SEGMENT:
            return None
        return Segment("race", entered, done + more, _standing(fields, still, groups, rounds))

    def _more_rounds(self, field: BestComparison[Case], still: Sequence[Case]) -> int:
        """Rounds that would settle the survivors; 0 if they are settled."""
        unclear = [field.others[case] for case in still if case != field.leader]
        needs = [each.more_rounds or MOST_ROUNDS_A_SEGMENT for each in unclear if each.verdict is Verdict.UNCLEAR]
        return max(needs, default=0)

    def _affordable(self, round_s: float) -> int:
        """Rounds beside the burn-in that fit into the rest of the budget."""
        assert self._deadline is not None
        left_s = self._deadline - self._clock() - START_S
        return max(0, int(left_s / round_s) - 1)


def check_budget(budget_s: float, cases: int, samples: int, device: Device) -> None:
    """Raises UsageError, with the least budget, if the given one is too small even for kernels without work."""
    round_s = cases * round_cost_s(samples, 0.0, device)
    if budget_s < _least_s(round_s):
        raise _too_small(budget_s, cases, round_s)


def group_cases(cases: Sequence[Case], swept: Collection[str]) -> dict[RaceGroup, tuple[Case, ...]]:
    """The racing points by kernel and workload."""
    groups: dict[RaceGroup, tuple[Case, ...]] = {}
    for case in cases:
        if case.is_point_of(swept):
            key = (case.variant.kernel, case.workload)
            groups[key] = (*groups.get(key, ()), case)
    return groups


def judge_groups(
    groups: Mapping[RaceGroup, Sequence[Case]],
    rounds: RoundTimes,
    collected: Collected,
    margin: float,
    confidence: float,
    own_sd: float = USUAL_PROCESS_SD[0],
) -> dict[RaceGroup, BestComparison[Case]]:
    """Compares the points of each group with its leader; groups without measurements are left out.

    The race analyses a group after each worker that measured it, so the burn-ins count the interim analyses. A settled
    group is not measured again and stays settled.
    """
    times = rounds.times
    measured = {group: {case: times[case.id] for case in cases if case.id in times} for group, cases in groups.items()}
    return {
        group: compare_with_best(
            points,
            margin=margin,
            confidence=confidence,
            look=_looks(points, collected),
            effects=_effects(points, rounds, own_sd),
        )
        for group, points in measured.items()
        if any(np.isfinite(each).any() for each in points.values())
    }


def _effects(points: Mapping[Case, FloatArray], rounds: RoundTimes, own_sd: float) -> ProcessEffects[Case]:
    """The effects of processes on a group's points: a launch common to all, and `own_sd` for each."""
    return estimate_effects(
        points,
        rounds.process([case.id for case in points]),
        usual_sd_us=USUAL_LAUNCH_SD_US,
        own_sds=dict.fromkeys(points, own_sd),
    )


def _looks(points: Iterable[Case], collected: Collected) -> int:
    return max(1, *(collected.burn_ins[case.id] for case in points))


def survivors(field: BestComparison[Case], collected: Collected) -> tuple[Case, ...]:
    """The leader and the points that may be as fast; a point with fewer rounds was dropped earlier."""
    most = len(collected.samples[field.leader.id])
    others = (
        case
        for case, comparison in field.others.items()
        if comparison.verdict is not Verdict.SLOWER and len(collected.samples[case.id]) == most
    )
    return (field.leader, *others)


def _standing(
    fields: Mapping[RaceGroup, BestComparison[Case]],
    still: Mapping[RaceGroup, Sequence[Case]],
    groups: Mapping[RaceGroup, Sequence[Case]],
    rounds: RoundTimes,
) -> str:
    one_kernel = len({kernel for kernel, _ in groups}) == 1
    told = []
    for group, field in fields.items():
        label, time_us = field.leader.label, rounds.interval(field.leader.id).estimate
        point = label.partition(":")[2] if one_kernel else label
        told.append(
            f"{field.leader.workload} {point} {time_us:.3f} µs, {len(still[group])} of {len(groups[group])} left"
        )
    return "best so far: " + "; ".join(told)


def _least_s(round_s: float) -> float:
    return START_S + (FEWEST_ROUNDS + 1) * round_s


def _too_small(budget_s: float, cases: int, round_s: float) -> UsageError:
    least_s = int(_least_s(round_s)) + 1
    return UsageError(
        f"--budget {budget_s:g}s is too small: a burn-in and {FEWEST_ROUNDS} rounds of {cases} cases take {least_s} s",
        f"give --budget {least_s}s or more, or fewer points or workloads",
    )
