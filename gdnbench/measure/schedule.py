"""How much is measured, in which order, and what is measured next, by one of four schedules.

`UntilClear` is that of a run on a GPU, `FixedRounds` that of one of as many rounds as the user said. In
`SequentialSchedule` an interim analysis follows each process. Its intervals have the level of one of all planned
analyses (Bonferroni), which is valid for any stopping rule. Each analysis has one process more, so the process effect
is drawn as often.

A `Race` is a coarse pass over all points, then ever fewer points in ever more rounds, until the best is known
(`stats.multiple.compare_with_best`). Each segment is a process of its own, so that a point cannot win by the memory
layout of one process. The intervals include the differences between processes, so that the coarse pass, a single
process, drops a point only if it is slower by more than a process can add.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

from gdnbench.analyse.conclude import RaceGroup, Weights, group_cases, judge_groups, overall_ratio, survivors
from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.errors import UsageError
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.op import Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Variance, Verdict, half_width_of, log_margin
from gdnbench.stats.multiple import BestComparison
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.store.settings import Settings, trim_of
from gdnbench.workers import task

T = TypeVar("T")

GPU_ROUND_US = 25_000.0
GPU_STATE_US = 4_000.0  # NVBench's own time for each round of a case
CPU_ROUND_US = 60_000.0
FEWEST_SAMPLES = {"cuda": 40, "cpu": 5}
LONGEST_CALL_US = {"cuda": 50.0, "cpu": CPU_ROUND_US / (task.CPU_CALLS_PER_SAMPLE * FEWEST_SAMPLES["cpu"])}
"""Longest call that a predicted time allows for; on a GPU most kernels here take less."""
WORKER_START_S = 6.0  # start of a worker: loading torch, binding every case
OWN_OUTPUTS = 2  # factor on the tensors: kernels that allocate their outputs get as many placements for them
ASIDE = 4  # further copies of the tensors: draws of the inputs, and the tensors of checked launches


def round_order(cases: Sequence[Case], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Case ids of each round, shuffled by workload, then by case: drift affects both of a pair, none always leads."""
    generator = random.Random(seed)
    groups: dict[Workload, list[str]] = {}
    for case in cases:
        groups.setdefault(case.workload, []).append(case.id)

    def shuffled(items: Sequence[T]) -> list[T]:
        return generator.sample(items, len(items))

    return tuple(
        tuple(chain.from_iterable(shuffled(ids) for ids in shuffled(list(groups.values())))) for _ in range(rounds)
    )


def memory_blocks(
    op: Op, cases: Sequence[Case], rounds: int, samples: int, budget_bytes: int, placed_bytes: int
) -> tuple[tuple[Case, ...], ...]:
    """Splits the cases into blocks measured one after the other, each of as many workloads as fit into memory.

    The cases are ordered by workload, so that those which differ only in the profile, and share placements, are
    adjacent. The limits are of a block's tensors at all of their placements in a process's `rounds`, burn-in included,
    of at most so many `samples` (a workload that exceeds it is a block), and of one workload's.
    """
    blocks: list[list[Case]] = []
    left = 0
    for workload, group in groupby(cases, key=lambda case: case.workload.at("")):
        nbytes = placements_bytes(op.tensor_bytes(workload), rounds, samples, placed_bytes)
        if not blocks or nbytes > left:
            blocks.append([])
            left = budget_bytes
        blocks[-1].extend(group)
        left -= nbytes
    return tuple(map(tuple, blocks))


def placements_bytes(tensor_bytes: int, rounds: int, samples: int, most_bytes: int) -> int:
    """Memory of all placements with kernels' own outputs; `most_bytes` limits the tensors without those."""
    window = task.window_size(tensor_bytes, samples)
    placements = window * task.window_count(tensor_bytes, window, rounds, most_bytes)
    return (OWN_OUTPUTS * placements + ASIDE) * tensor_bytes


def most_placed_bytes(budget_bytes: int) -> int:
    """Limit of the tensors of one workload, from the budget of a block."""
    return min(task.MOST_PLACED_BYTES, budget_bytes // (2 * OWN_OUTPUTS))


def sample_count(requested: int, warm_us: float, device: Device) -> int:
    """Samples per round: as many as requested, fewer if a round of a slow kernel would take too long."""
    if device == "cuda":
        affordable = GPU_ROUND_US / (task.GPU_SAMPLE_US + warm_us)
    else:
        affordable = CPU_ROUND_US / (task.CPU_CALLS_PER_SAMPLE * max(warm_us, 1.0))
    return min(requested, max(int(affordable), FEWEST_SAMPLES[device]))


def round_cost_s(samples: int, warm_us: float, device: Device) -> float:
    """Approximate time of a round of one case, in seconds."""
    if device == "cuda":
        return (GPU_STATE_US + (samples + task.WARM_UPS) * (task.GPU_SAMPLE_US + warm_us)) * 1e-6
    return samples * task.CPU_CALLS_PER_SAMPLE * warm_us * 1e-6


def longest_round_s(samples: int, device: Device) -> float:
    """Longest time of a round of one case, in seconds, for calls up to `LONGEST_CALL_US`."""
    call_us = LONGEST_CALL_US[device]
    return round_cost_s(sample_count(samples, call_us, device), call_us, device)


@dataclass(frozen=True)
class Segment:
    """What one worker a group measures, until `rounds` of all segments are complete; `standing` is a message."""

    phase: str
    cases: tuple[Case, ...]
    rounds: int
    standing: str = ""


class FixedRounds:
    """A schedule of the same number of rounds of every case, in equal parts by several workers.

    The process effect, and what a kernel draws once in a process (Inductor's choice, an allocation), is then drawn as
    often. `groups` are the cases that each process measures together, if not all.
    """

    def __init__(self, rounds: int, processes: int, groups: Sequence[Sequence[Case]] = ()) -> None:
        self._groups = groups
        self._targets = tuple(round_share(rounds, processes, number) for number in range(1, processes + 1))

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, _samples: Mapping[str, int], _warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The next segment of the cases that passed the preflight, or None when nothing is left to find out.

        A schedule decides from the samples alone, so that a stopped run can be resumed. Samples are per round, the time
        of a warm call in µs, both by case id.
        """
        left = tuple(case for case in cases if case.id not in collected.lost)
        done = collected.rounds_done(self._groups or [left])
        ended, processes = bisect_right(self._targets, done), len(self._targets)
        if not left or ended == processes:
            return None
        standing = "" if processes == 1 else f"process {ended + 1} of {processes}"
        return Segment("measure", left, self._targets[ended], standing)


@dataclass
class UntilClear:
    """A schedule of equal parts by several workers, of which all but the first measure only what is close.

    `find_close` returns, after the first part, the ids of the kernels that more processes may be needed for. Baseline,
    control and floors are measured beside these. It is asked once: a second part by which two processes agree by chance
    would end too soon. `groups` are the cases that each process measures together.
    """

    rounds: int
    processes: int
    groups: Sequence[Sequence[Case]]
    find_close: Callable[[Sequence[Case]], Collection[str]]
    _close: tuple[Case, ...] | None = None

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, _samples: Mapping[str, int], _warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The next part, or None where all that is close has all of its rounds."""
        left = {case.id for case in cases if case.id not in collected.lost}
        counts = {case.id: len(collected.samples.get(case.id, ())) for case in cases}
        for number in range(1, self.processes + 1):
            target = round_share(self.rounds, self.processes, number)
            part = tuple(case for case in (cases if number == 1 else self._part(cases, counts)) if case.id in left)
            has_kernels = any(case.role is Role.KERNEL for case in cases)
            timed = [case for case in part if not has_kernels or case.role is Role.KERNEL]
            if any(counts[case.id] < target for case in timed):
                return Segment("measure", part, target, f"process {number} of {self.processes}")
        return None

    def _part(self, cases: Sequence[Case], counts: Mapping[str, int]) -> tuple[Case, ...]:
        if self._close is None:
            done = round_share(self.rounds, self.processes, 1)
            close = {*self.find_close(cases)}
            for group in self.groups:  # a resumed run goes on with the kernels that its second part has begun with
                kernels = {case.id for case in group if case.role is Role.KERNEL}
                begun = {id_ for id_ in kernels if counts.get(id_, 0) > done}
                close = close - kernels | begun if begun else close
            open_at = {case.workload for case in cases if case.id in close}
            open_at |= {case.workload for case in cases} - {case.workload for case in cases if case.role is Role.KERNEL}
            self._close = tuple(
                case
                for case in cases
                if case.id in close or (case.role is not Role.KERNEL and case.workload in open_at)
            )
        return self._close


def round_share(rounds: int, processes: int, number: int) -> int:
    """Number of rounds done when `number` of the processes have ended: equal parts, rounded up."""
    return -(-rounds * number // processes)


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
        references = {case for case in cases if not case.is_point_of(self.swept) and case.workload in open_workloads}
        entered = tuple(case for case in cases if case in racing | references)
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
    for group, points in fields.items():
        leader = points.leader
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


Schedule = FixedRounds | UntilClear | SequentialSchedule | Race
