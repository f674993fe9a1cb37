"""Measures whether a kernel's time depends on the distribution of its inputs, in a few rounds at the op's extremes.

One process times both extremes at the same placements, so that only the inputs differ. A run that times the extremes as
workloads has these rounds already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.model.case import Case, Variant
from gdnbench.model.measurement import INPUTS_MARGIN, InputsEffect
from gdnbench.model.op import Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.stats import FloatArray
from gdnbench.stats.multiple import judge_family
from gdnbench.stats.paired import PairedLogRatio
from gdnbench.store.journal import Examined
from gdnbench.store.settings import Settings
from gdnbench.workers.task import Task

ROUNDS = 8
"""Rounds of each extreme, after the burn-in: on an H100, 4 left 1 % unclear for half of the decode kernels."""
SAMPLES = 16
"""Samples of a round, half of a run's: both extremes lie at the same placements, whose effect cancels."""

_Group = tuple[Variant, Workload]  # the workload for all of its profiles


class InputsProbe:
    """The run's cases that have a time, at the extremes of their op's profiles, unless it times them there itself.

    `origins` has one of the run's cases for each variant and sizes.
    """

    def __init__(self, op: Op, cases: Sequence[Case]) -> None:
        groups = _groups(cases) if len(op.extremes) > 1 else {}
        timed = {group: {case.workload.inputs for case in members} for group, members in groups.items()}
        self._groups = {group: members for group, members in groups.items() if not timed[group] >= set(op.extremes)}
        self.origins = [members[0] for members in self._groups.values()]
        pairs = [Case(variant, sizes.at(profile)) for variant, sizes in self._groups for profile in op.extremes]
        order = list(dict.fromkeys(sizes for _, sizes in self._groups))
        self.cases = tuple(sorted(pairs, key=lambda case: order.index(case.workload.at(""))))

    def task(self, own: Task) -> Task:
        """The task of these cases beside the run's own cases, some of which are at an extreme, from that of these."""
        return replace(
            own,
            samples=self.samples(own) | own.samples,
            launched=own.launched | {id_: own.launched[of] for id_, of in self.origin_ids.items()},
        )

    def samples(self, own: Task) -> dict[str, int]:
        """Samples per round by case id, from the task of the run's own cases, which may have more."""
        return {id_: min(SAMPLES, own.samples[of]) for id_, of in self.origin_ids.items()}

    @property
    def origin_ids(self) -> dict[str, str]:
        """Id of one of the run's cases of the same variant and sizes, by id of each of these."""
        return {case.id: self._groups[case.variant, case.workload.at("")][0].id for case in self.cases}

    def losses(self, probed: Collected) -> list[Examined]:
        """The run's cases that failed at an extreme of the inputs, and so are failed in the run.

        `probed` may have failures of kernels that failed in the run, too, and that this probe therefore leaves out.
        """
        failed = [(case, probed.lost[case.id]) for case in self.cases if case.id in probed.lost]
        return [
            replace(lost, case=own.id, reason=f"with {case.workload.inputs} inputs: {lost.reason}")
            for case, lost in failed
            for own in self._groups[case.variant, case.workload.at("")]
        ]


def effects_of_inputs(
    op: Op, cases: Sequence[Case], collected: Collected, probed: Collected, settings: Settings
) -> dict[str, InputsEffect]:
    """How far each case's time depends on its inputs, by id; confidence is joint for a workload."""
    own, apart = (RoundTimes(each, settings.confidence, settings.trim) for each in (collected, probed))
    times_by_group: dict[_Group, dict[str, FloatArray]] = {}
    for group in _groups(cases):
        variant, sizes = group
        ids = {profile: Case(variant, sizes.at(profile)).id for profile in op.extremes}
        times = next((each.times for each in (own, apart) if each.times.keys() >= set(ids.values())), None)
        if times is not None and len(ids) > 1:
            times_by_group[group] = {profile: times[id_] for profile, id_ in ids.items()}
    ends = {group: _ends(times) for group, times in times_by_group.items()}
    ratios = {
        group: PairedLogRatio.from_rounds(times[ends[group][1]], times[ends[group][0]])
        for group, times in times_by_group.items()
    }
    effects: dict[_Group, InputsEffect] = {}
    for sizes in {sizes for _, sizes in ratios}:
        of_sizes = {group: ratio for group, ratio in ratios.items() if group[1] == sizes}
        for group, each in judge_family(of_sizes, margin=INPUTS_MARGIN, confidence=settings.confidence).items():
            speedup = each.speedup
            effects[group] = InputsEffect(*ends[group], speedup.estimate, speedup.low, speedup.high)
    return {
        case.id: effects[group] for group, members in _groups(cases).items() if group in effects for case in members
    }


def _groups(cases: Sequence[Case]) -> dict[_Group, list[Case]]:
    """The kernels and baselines by variant and sizes; a control repeats its baseline and is left out."""
    groups: dict[_Group, list[Case]] = {}
    for case in cases:
        if case.role in {Role.KERNEL, Role.BASELINE}:
            groups.setdefault((case.variant, case.workload.at("")), []).append(case)
    return groups


def _ends(times: Mapping[str, FloatArray]) -> tuple[str, str]:
    means = {profile: float(np.nanmean(np.log(each))) for profile, each in times.items()}
    finite = {profile: mean for profile, mean in means.items() if math.isfinite(mean)} or means
    return max(finite, key=finite.__getitem__), min(finite, key=finite.__getitem__)
