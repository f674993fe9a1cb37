"""The fastest kernel of a workload of a run, and the kernels that cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.analyse.card_run import PooledTimes
from gdnbench.analyse.run_change import own_sd, process_by_workload
from gdnbench.analyse.suite import side_by_side
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.stats import FloatArray
from gdnbench.stats.interval import Verdict
from gdnbench.stats.multiple import compare_with_best
from gdnbench.stats.paired import Effects
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, estimate_effects
from gdnbench.store.info import RunInfo
from gdnbench.store.samples import CaseRounds


@dataclass(frozen=True, kw_only=True)
class FastestKernel:
    """The fastest kernel of a workload, and the labels of those that tie with it, or may."""

    row: Measurement
    tied: tuple[str, ...] = ()  # shown to be within the margin
    unclear: tuple[str, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """The kernels that cannot be told from it."""
        return (*self.tied, *self.unclear)


def fastest_of(info: RunInfo, rows: Sequence[Measurement], rounds: Mapping[str, CaseRounds]) -> FastestKernel | None:
    """Returns the fastest row of a workload, floors aside, or None; `rounds` are by case id.

    Kernels are compared as in a sweep, by the rounds that all share, moved there by the baseline. Without such rounds
    it is the one with the least time.
    """
    timed = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    racing = {row.case.id: row for row in timed if row.role.does_the_work}
    if not racing:
        return None
    bridge = next((row.case.id for row in rows if row.role is Role.BASELINE), "")
    shared = side_by_side({row.case.id: rounds[row.case.id].times_us for row in timed if row.case.id in rounds}, bridge)
    known = {name: shared[name] for name in racing if name in shared}
    if len(known) < len(racing):
        return FastestKernel(row=_least(racing))
    try:
        effects = estimate_effects(
            known,
            process_by_workload(timed, rounds),
            has_launch=any(row.timing.timer == "nvbench" for row in timed if row.timing),
            usual_sd_us=USUAL_LAUNCH_SD_US,
            own_sds={name: own_sd(info.op, row.launches) for name, row in racing.items()},
        )
    except ValueError:  # no rounds, or invalid ones: times still hold
        return FastestKernel(row=_least(racing))
    return _compared(info, racing, known, effects)


def fastest_of_joint(info: RunInfo, rows: Sequence[Measurement], pooled: PooledTimes) -> FastestKernel | None:
    """Returns the fastest row of a workload of joined runs as `fastest_of`, by the rounds of all of them."""
    racing = {
        row.case.id: row for row in rows if row.timing and row.role.does_the_work and row.role is not Role.CONTROL
    }
    return _compared(info, racing, {name: pooled.times[name] for name in racing}, pooled.effects) if racing else None


def _least(racing: Mapping[str, Measurement]) -> Measurement:
    return min(racing.values(), key=lambda row: row.timing.time_us if row.timing else 0.0)


def _compared(
    info: RunInfo, racing: Mapping[str, Measurement], known: Mapping[str, FloatArray], effects: Effects[str]
) -> FastestKernel:
    limits = {name: info.settings[name] for name in ("margin", "confidence")}
    try:
        field = compare_with_best(known, **limits, effects=effects)
    except ValueError:
        return FastestKernel(row=_least(racing))
    tied, unclear = (
        tuple(racing[name].case.label for name, other in field.others.items() if other.verdict is verdict)
        for verdict in (Verdict.SAME, Verdict.UNCLEAR)
    )
    return FastestKernel(row=racing[field.leader], tied=tied, unclear=unclear)
