"""The schedule of a run's rounds, and the interim analyses that end it once the verdict is clear.

An interim analysis follows each process. Its intervals have the level of one of all planned analyses (Bonferroni),
which is valid for any stopping rule. Each analysis has one process more, so the process effect is drawn as often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from gdnbench.analyse.conclude import Weights, overall_ratio
from gdnbench.analyse.rounds import Collected
from gdnbench.measure.interim import Race
from gdnbench.measure.schedule import FixedRounds, Schedule, Segment, round_cost_s
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.status import Role
from gdnbench.stats.interval import Variance, Verdict, half_width_of, log_margin
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.store.settings import Settings

START_S = 2.0
"""Seconds for a forked worker to start: a CUDA context, and every case bound at its placements."""
SLACK = 1.5
"""Factor by which a predicted half-width may be too wide and still count as enough: few rounds predict it poorly."""


class UntilClear:
    """A schedule of one segment a process, all of the same number of rounds.

    The settings have interim analyses (`looks`) and a budget. `own_sds` are relative SDs that a process adds to each
    case, which a single process cannot show; `clock` returns seconds.
    """

    def __init__(
        self,
        settings: Settings,
        device: Device,
        weights: Weights,
        own_sds: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._device = device
        self._weights = weights
        self._own_sds = own_sds
        self._clock = clock
        self._deadline = math.inf

    def next_segment(
        self, cases: Sequence[Case], collected: Collected, samples: Mapping[str, int], warm_us: Mapping[str, float]
    ) -> Segment | None:
        """The rounds of one more process, or None if they cannot matter, as without the kernel or its baseline."""
        left = tuple(case for case in cases if case.id not in collected.lost)
        rounds = self._settings.rounds
        looks = len(collected.complete_rounds(case.id for case in left)) // rounds
        if looks == self._settings.looks or not {Role.KERNEL, Role.BASELINE} <= {case.role for case in left}:
            return None
        if looks == 0:
            self._deadline = self._clock() + (self._settings.budget_s or math.inf)
            return Segment("measure", left, rounds)
        on_gpu = self._device == "cuda"
        ratio = overall_ratio(left, collected, self._weights, self._settings, has_launch=on_gpu, own_sds=self._own_sds)
        cost_s = START_S + (1 + rounds) * sum(
            round_cost_s(samples[case.id], warm_us[case.id], self._device) for case in left
        )
        if ratio is None or not self._may_become_clear(ratio, looks) or self._clock() + cost_s > self._deadline:
            return None
        return Segment("measure", left, (looks + 1) * rounds, f"look {looks} of {self._settings.looks}: not clear yet")

    def _may_become_clear(self, ratio: PairedLogRatio, looks: int) -> bool:
        """Whether the verdict is unclear, and the processes left may make it clear."""
        margin, confidence = self._settings.margin, self._settings.confidence
        if judge_paired(ratio, margin, confidence).verdict is not Verdict.UNCLEAR:
            return False
        found = ratio.variance
        last = Variance(found.value * looks / self._settings.looks, ratio.n * self._settings.looks / looks)
        distance = abs(abs(ratio.mean) - log_margin(margin))
        return math.isinf(found.value) or half_width_of(last, confidence) < SLACK * distance


def choose_schedule(
    settings: Settings,
    device: Device,
    *,
    swept: Collection[str] = (),
    weights: Weights | None = None,
    own_sds: Mapping[str, float] | None = None,
    blocks: int = 1,
    groups: Sequence[Sequence[Case]] = (),
) -> Schedule:
    """Returns `UntilClear` if interim analyses are set, `Race` if there is a budget, else `FixedRounds`.

    Args:
        swept: the kernels whose points race.
        weights: of each workload in the overall ratio.
        own_sds: relative SD that a process adds to each case.
        blocks: number of blocks of workloads measured one after the other, which share the budget equally.
        groups: the cases that are measured together; empty for all.
    """
    if settings.looks:
        return UntilClear(settings, device, weights or {}, own_sds)
    if settings.budget_s is not None:
        return Race(settings.budget_s / blocks, settings.margin, settings.confidence, device, swept)
    return FixedRounds(settings.rounds, settings.processes, groups)
