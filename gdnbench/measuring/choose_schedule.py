"""Which schedule the settings of a run ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdnbench.measuring.looks import UntilClear
from gdnbench.measuring.overall import Weights
from gdnbench.measuring.race import Race
from gdnbench.measuring.request import Settings
from gdnbench.measuring.schedule import FixedRounds, Schedule
from gdnbench.model.case import Case
from gdnbench.model.kernel import Device


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
    """Looks until the verdict is clear, a race between points where there is a budget for one, else so many rounds.

    Args:
        settings: how to measure.
        device: where.
        swept: the kernels whose points race.
        weights: of each workload in the verdict that is looked at.
        own_sds: what a process adds to each case.
        blocks: of workloads that are measured one after the other; each has an equal part of the budget.
        groups: the cases that are measured together, if not all.
    """
    if settings.looks:
        return UntilClear(settings, device, weights or {}, own_sds)
    if settings.budget_s is not None:
        return Race(settings.budget_s / blocks, settings.margin, settings.confidence, device, swept)
    return FixedRounds(settings.rounds, settings.processes, groups)
