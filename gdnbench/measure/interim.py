"""The schedules that decide by the samples: interim analyses that end a run once the verdict is clear, and a race.

An interim analysis follows each process. Its intervals have the level of one of all planned analyses (Bonferroni),
which is valid for any stopping rule. Each analysis has one process more, so the process effect is drawn as often.

A race is a coarse pass over all points, then ever fewer points in ever more rounds, until the best is known
(`stats.multiple.compare_with_best`). Each segment is a process of its own, so that a point cannot win by the memory
layout of one process. The intervals include the differences between processes, so that the coarse pass, a single
process, drops a point only if it is slower by more than a process can add.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gdnbench.analyse.conclude import RaceGroup, Weights, group_cases, judge_groups, overall_ratio, survivors
from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.errors import UsageError
from gdnbench.measure.schedule import WORKER_START_S, FixedRounds, Segment, round_cost_s
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.status import Role
from gdnbench.stats.interval import Variance, Verdict, half_width_of, log_margin
from gdnbench.stats.multiple import BestComparison
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.store.settings import Settings, trim_of

COARSE_ROUNDS = 7
FEWEST_ROUNDS = 2  # an interval needs two
FEWEST_ROUNDS_A_SEGMENT = 5  # fewer do not justify a worker's start
MOST_ROUNDS_A_SEGMENT = 41
MOST_RACE_ROUNDS = 400  # points that are still undecided then lie on the margin's edge
COARSE_OWN_SD = 0.005
"""Relative SD that the coarse pass's process may add to a time: five times most kernels', since a drop is final."""


@dataclass
class Race:
    """Races the points of each kernel and workload against each other.

    The last segment is cut to fit into `budget_s`. `confidence` is, for each group, that its best point is not dropped.
    Cases of kernels that are not `swept` are measured beside the points; `clock` returns seconds.
    """

    budget_s: float
    margin: float
    confidence: float
    device: Device
    swept: Collection[str]
    clock: Callable[[], float] = time.monotonic
    _deadline: float | None = None

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The coarse pass, then the points that may still be the best, or None; raises UsageError if time is short."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        if not any(case.is_point_of(self.swept) for case in left):
            return None
        if self._deadline is None:
            self._deadline = self.clock() + self.budget_s
        costs_s = {case.id: round_cost_s(samples[case.id], warm_us[case.id], self.device) for case in left}
        done = {case.id: len(collected.samples.get(case.id, ())) for case in left}
        if len(set(done.values())) == 1 and max(done.values()) < COARSE_ROUNDS:
            return self._coarse_segment(left, max(done.values()), sum(costs_s.values()))
        return self._race_segment(left, collected, costs_s, max(done.values()))

    def _coarse_segment(self, cases: tuple[Case, ...], done: int, round_s: float) -> Segment | None:
        affordable = done + self._affordable(round_s)
        if affordable < FEWEST_ROUNDS:
            raise _too_small(self.budget_s, len(cases), round_s)
        rounds = min(COARSE_ROUNDS, affordable)
        return Segment("coarse", cases, rounds) if rounds > done else None

    def _race_segment(
        self, cases: tuple[Case, ...], collected: Collected, costs_s: Mapping[str, float], done: int
    ) -> Segment | None:
        groups = group_cases(cases, self.swept)
        rounds = RoundTimes(collected, self.confidence, trim_of(self.device))
        fields = judge_groups(groups, rounds, collected, self.margin, self.confidence, COARSE_OWN_SD)
        still = {group: survivors(field, collected) for group, field in fields.items()}
        wanted = {group: _more_rounds(field, still[group]) for group, field in fields.items()}
        racing = {case for group, rounds_left in wanted.items() if rounds_left for case in still[group]}
        if not racing:
            return None
        open_workloads = {case.workload for case in racing}
        beside = {case for case in cases if not case.is_point_of(self.swept) and case.workload in open_workloads}
        entered = tuple(case for case in cases if case in racing | beside)
        affordable = self._affordable(sum(costs_s[case.id] for case in entered))
        useful = min(max(*wanted.values(), FEWEST_ROUNDS_A_SEGMENT), MOST_ROUNDS_A_SEGMENT)
        more = min(useful, affordable, MOST_RACE_ROUNDS - done)
        if more < FEWEST_ROUNDS_A_SEGMENT:
            return None
        return Segment("race", entered, done + more, _standing(fields, still, groups, rounds))

    def _affordable(self, round_s: float) -> int:
        """Rounds beside the burn-in that fit into the rest of the budget."""
        assert self._deadline is not None
        left_s = self._deadline - self.clock() - WORKER_START_S
        return max(0, int(left_s / round_s) - 1)


def _more_rounds(field: BestComparison[Case], still: Sequence[Case]) -> int:
    """Rounds that would settle the survivors; 0 if they are settled."""
    others = [field.others[case] for case in still if case != field.leader]
    needs = (each.more_rounds or MOST_ROUNDS_A_SEGMENT for each in others if each.verdict is Verdict.UNCLEAR)
    return max(needs, default=0)


def _standing(
    fields: Mapping[RaceGroup, BestComparison[Case]],
    still: Mapping[RaceGroup, Sequence[Case]],
    groups: Mapping[RaceGroup, Sequence[Case]],
    rounds: RoundTimes,
) -> str:
    one_kernel = len({kernel for kernel, _ in groups}) == 1
    best = []
    for group, field in fields.items():
        leader = field.leader
        point = leader.label.partition(":")[2] if one_kernel else leader.label
        time_us, left = rounds.interval(leader.id).estimate, f"{len(still[group])} of {len(groups[group])} left"
        best.append(f"{leader.workload} {point} {time_us:.3f} µs, {left}")
    return "best so far: " + "; ".join(best)


def check_budget(budget_s: float, cases: int, samples: int, device: Device) -> None:
    """Raises UsageError, with the least budget, if the given one is too small even for kernels without work."""
    round_s = cases * round_cost_s(samples, 0.0, device)
    if budget_s < WORKER_START_S + (FEWEST_ROUNDS + 1) * round_s:
        raise _too_small(budget_s, cases, round_s)


def _too_small(budget_s: float, cases: int, round_s: float) -> UsageError:
    least_s = int(WORKER_START_S + (FEWEST_ROUNDS + 1) * round_s) + 1
    return UsageError(
        f"--budget {budget_s:g}s is too small: a burn-in and {FEWEST_ROUNDS} rounds of {cases} cases take {least_s} s",
        f"give --budget {least_s}s or more, or fewer points or workloads",
    )


FORKED_WORKER_START_S = 2.0
"""Seconds for a forked worker to start: a CUDA context, and every case bound at its placements."""
SLACK = 1.5
"""Factor by which a predicted half-width may be too wide and still count as enough: few rounds predict it poorly."""


@dataclass
class SequentialSchedule:
    """A schedule of one segment a process, all of the same number of rounds.

    The settings have interim analyses (`looks`) and a budget. `own_sds` are relative SDs that a process adds to each
    case, which a single process cannot show; `clock` returns seconds.
    """

    settings: Settings
    device: Device
    weights: Weights
    own_sds: Mapping[str, float] | None = None
    clock: Callable[[], float] = time.monotonic
    _deadline: float = math.inf

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The rounds of one more process, or None if they cannot matter, as without the kernel or its baseline."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        rounds = self.settings.rounds
        looks = len(collected.complete_rounds(case.id for case in left)) // rounds
        if looks == self.settings.looks or not {Role.KERNEL, Role.BASELINE} <= {case.role for case in left}:
            return None
        if looks == 0:
            self._deadline = self.clock() + (self.settings.budget_s or math.inf)
            return Segment("measure", left, rounds)
        on_gpu = self.device == "cuda"
        ratio = overall_ratio(left, collected, self.weights, self.settings, has_launch=on_gpu, own_sds=self.own_sds)
        cost_s = FORKED_WORKER_START_S + (1 + rounds) * sum(
            round_cost_s(samples[case.id], warm_us[case.id], self.device) for case in left
        )
        if ratio is None or not self._may_become_clear(ratio, looks) or self.clock() + cost_s > self._deadline:
            return None
        return Segment("measure", left, (looks + 1) * rounds, f"look {looks} of {self.settings.looks}: not clear yet")

    def _may_become_clear(self, ratio: PairedLogRatio, looks: int) -> bool:
        """Whether the verdict is unclear, and the processes left may make it clear."""
        margin, confidence = self.settings.margin, self.settings.confidence
        if judge_paired(ratio, margin, confidence).verdict is not Verdict.UNCLEAR:
            return False
        variance = ratio.variance
        last = Variance(variance.value * looks / self.settings.looks, ratio.n * self.settings.looks / looks)
        distance = abs(abs(ratio.mean) - log_margin(margin))
        return math.isinf(variance.value) or half_width_of(last, confidence) < SLACK * distance


Schedule = FixedRounds | SequentialSchedule | Race


def choose_schedule(
    settings: Settings,
    device: Device,
    *,
    swept: Collection[str],
    weights: Weights,
    own_sds: Mapping[str, float],
    blocks: int = 1,
    groups: Sequence[Sequence[Case]] = (),
) -> Schedule:
    """Returns `SequentialSchedule` if interim analyses are set, `Race` if there is a budget, else `FixedRounds`.

    The `blocks` of workloads, measured one after the other, share the budget equally. `groups` are the cases that are
    measured together; empty for all.
    """
    if settings.looks:
        return SequentialSchedule(settings, device, weights, own_sds)
    if settings.budget_s is not None:
        return Race(settings.budget_s / blocks, settings.margin, settings.confidence, device, swept)
    return FixedRounds(settings.rounds, settings.processes, groups)
