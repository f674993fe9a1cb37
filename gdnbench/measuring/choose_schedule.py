"""Chooses the schedule that a run's settings ask for."""

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
