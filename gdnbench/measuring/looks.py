"""Process after process until the verdict is clear, will not become so, or the time is up.

It is looked at after each process, and the intervals are of one look of all that there may be (Bonferroni), which holds
for whatever rule stops it. Each look has a process more: what a process adds is then drawn as often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from gdnbench.measuring.overall import Weights, overall_ratio
from gdnbench.measuring.request import Settings
from gdnbench.measuring.rounds import Collected
from gdnbench.measuring.schedule import Segment, round_cost_s
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device
from gdnbench.model.status import Role
from gdnbench.stats.comparison import Verdict, log_margin
from gdnbench.stats.paired import PairedLogRatio, judge_paired
from gdnbench.stats.variance import Variance, half_width_of

START_S = 2.0
"""Of a worker that is forked: a CUDA context, and every case bound at its placements."""
SLACK = 1.5
"""A half-width that is foreseen this many times too wide may still do: it is an estimate of few rounds."""


class UntilClear:
    """A segment a process, each as long as the others.

    Args:
        settings: with looks, and a budget.
        device: where.
        weights: of each workload.
        own_sds: what a process adds to each case, which the first look's only one does not show.
        clock: seconds.
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
        """The rounds of one more process, where they can matter: without the kernel and its baseline none can."""
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
        """Whether the verdict is not clear, and further processes may make it so."""
        margin, confidence = self._settings.margin, self._settings.confidence
        if judge_paired(ratio, margin, confidence).verdict is not Verdict.UNCLEAR:
            return False
        found = ratio.variance
        last = Variance(found.value * looks / self._settings.looks, ratio.n * self._settings.looks / looks)
        distance = abs(abs(ratio.mean) - log_margin(margin))
        return math.isinf(found.value) or half_width_of(last, confidence) < SLACK * distance
