"""Reads the runs of several cards to be joined, checks which may be, and pools the round times of their cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdnbench.analyse.runs import conditions_of
from gdnbench.errors import UsageError
from gdnbench.model.case import same_sources
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.card_effects import CardEffects, estimate_card_effects, within_cards
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects
from gdnbench.store.info import RunInfo, read_info, refuse_step
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.samples import CaseRounds, processes_of, read_case_rounds
from gdnbench.store.settings import INTERQUARTILE

_SAME_SETTINGS = {"plain": False, "cold_tlb": False, "trim": INTERQUARTILE}
"""Settings that change what a time is, and the value in runs without them; runs that differ are not joined."""

_OF_EACH_RUN = ("GPU", "commit")
"""Conditions that may differ: the card is the random effect, and kernels of other code are left out one by one."""


@dataclass(frozen=True, kw_only=True)
class CardRun:
    """A stored run to be joined: rows with a time, and rounds, by case id and further clock, None for the run's own."""

    folder: Path
    info: RunInfo
    rows: Mapping[tuple[str, Clock | None], Measurement]
    rounds: Mapping[tuple[str, Clock | None], CaseRounds]
    failed: Mapping[str, Measurement]  # without a time, by case id

    @property
    def uuid(self) -> str:
        """The UUID of its card; empty if unknown."""
        return str((self.info.machine.get("gpu") or {}).get("uuid") or "")

    @property
    def gpu_name(self) -> str:
        """The driver's name of its card."""
        return str((self.info.machine.get("gpu") or {}).get("name") or "")


def read_card_run(folder: Path) -> CardRun:
    """Reads a run's folder; UsageError for a step, RunFormatError if it has no readable run."""
    refuse_step(folder)
    rows = [row for of_clock in read_by_clock(folder).values() for row in of_clock]
    rounds = read_case_rounds(folder)
    return CardRun(
        folder=folder,
        info=read_info(folder),
        rows={key: row for row in rows if row.timing and (key := (row.case.id, row.clock)) in rounds},
        rounds=rounds,
        failed={row.case.id: row for row in rows if row.timing is None and row.clock is None},
    )


def check_joinable(run: CardRun) -> None:
    """Raises UsageError for a run that cannot be joined: a sweep, or one whose GPU is unknown."""
    name = run.info.run_id
    if run.info.swept:
        raise UsageError(f"{name} is a sweep: only runs are joined", f"gdnbench show {name}")
    if not run.uuid:
        raise UsageError(f"{name} does not tell which GPU it is of", "join runs of a GPU, or compare them")


def check_alike(first: CardRun, other: CardRun) -> None:
    """Raises UsageError for two runs that differ in op, GPU model, baseline or a setting that changes times."""
    names = f"{first.info.run_id} {other.info.run_id}"
    apart = {
        "ops": (first.info.op, other.info.op),
        "GPU models": (first.gpu_name, other.gpu_name),
        "baselines": (first.info.baseline, other.info.baseline),
        **{
            f"settings of {name}": (first.info.settings.get(name, default), other.info.settings.get(name, default))
            for name, default in _SAME_SETTINGS.items()
        },
    }
    for what, (left, right) in apart.items():
        if left != right:
            raise UsageError(
                f"runs of different {what} are not joined: {left or 'none'} and {right or 'none'}",
                f"gdnbench compare {names}",
            )


def differing_conditions(runs: Sequence[CardRun]) -> list[str]:
    """Warnings of the conditions, besides the card, in which the runs differ."""
    found = [conditions_of(run.info) for run in runs]
    names = dict.fromkeys(name for each in found for name in each if name not in _OF_EACH_RUN)
    by_name = {name: list(dict.fromkeys(each.get(name, "none") for each in found)) for name in names}
    warnings = [
        f"the runs differ in {name}: {', '.join(values)}" for name, values in by_name.items() if len(values) > 1
    ]
    if len({run.info.op_hash for run in runs} - {""}) > 1:
        warnings.append("the runs differ in what the op says of inputs and gates")
    return warnings


def shared_cases(runs: Sequence[CardRun]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Ids of the cases that every run timed with the same code, and labels of the others by the reason."""
    first = runs[0]
    everywhere = dict.fromkeys(case_id for run in runs for case_id, clock in run.rows if clock is None)
    shared: list[str] = []
    left_out: dict[str, list[str]] = {}
    for case_id in everywhere:
        rows = [run.rows.get((case_id, None)) for run in runs]
        there = [row for row in rows if row]
        if len(there) < len(runs):
            left_out.setdefault("not timed in every run", []).append(_case_text(there[0]))
        elif any(not _same_code(first, run, case_id) for run in runs[1:]):
            left_out.setdefault("of other code in some run", []).append(_case_text(there[0]))
        else:
            shared.append(case_id)
    return shared, {why: tuple(labels) for why, labels in left_out.items()}


def _case_text(row: Measurement) -> str:
    return f"{row.case.label} {row.case.workload}"


def _same_code(first: CardRun, other: CardRun, case_id: str) -> bool:
    one, another = (run.rows[case_id, None].case for run in (first, other))
    # Each card measures the form of a floor that is fastest there; the forms together still are the floor.
    is_alike = one.variant == another.variant or (one.is_bare_floor and another.is_bare_floor)
    kernel = one.variant.kernel
    return is_alike and same_sources(first.info.sources.get(kernel, ""), other.info.sources.get(kernel, ""))


RunRounds = tuple[str, Mapping[str, CaseRounds]]  # the UUID of a run's card, and the rounds of each case by its id


@dataclass(frozen=True)
class PooledTimes:
    """The rounds of all runs, one run after the other."""

    times: Mapping[str, FloatArray]  # shape (rounds,) by case id, microseconds, NaN where a round is missing
    sm_mhz: Mapping[str, FloatArray]  # shape (rounds,) by case id, the SM clock of each round, MHz, NaN if unknown
    card: IntArray  # shape (rounds,), the card of each round, numbered from 0 in the order of the runs
    effects: ProcessEffects[str] | CardEffects[str]
    of_same_code: ProcessEffects[str]  # the effects for comparing a case with another of the same code


def pool_times(rows: Sequence[Measurement], runs: Sequence[RunRounds]) -> PooledTimes:
    """Pools the rounds of a workload's cases, `rows` of one clock; every run has all of these cases."""
    uuids = list(dict.fromkeys(uuid for uuid, _ in runs))
    ids = [row.case.id for row in rows]
    times: dict[str, list[FloatArray]] = {case_id: [] for case_id in ids}
    sm_mhz: dict[str, list[FloatArray]] = {case_id: [] for case_id in ids}
    process: list[IntArray] = []
    card: list[IntArray] = []
    for number, (uuid, rounds) in enumerate(runs):
        of_run = processes_of(rounds[case_id] for case_id in ids)
        there = np.any([np.isfinite(rounds[case_id].times_us) for case_id in ids], axis=0)
        for case_id in ids:
            times[case_id].append(rounds[case_id].times_us[there])
            clocks = rounds[case_id].sm_mhz
            sm_mhz[case_id].append(np.full(int(there.sum()), np.nan) if clocks is None else clocks[there])
        process.append(of_run[there] + number * _MOST_PROCESSES)
        card.append(np.full(int(there.sum()), uuids.index(uuid)))
    joined, joined_mhz = (
        {case_id: np.concatenate(parts) for case_id, parts in each.items()} for each in (times, sm_mhz)
    )
    card_of_round = np.concatenate(card)
    own, of_same_code = _effects(rows, joined, np.concatenate(process), card_of_round, several=len(uuids) > 1)
    return PooledTimes(joined, joined_mhz, card_of_round, own, of_same_code)


_MOST_PROCESSES = 1 << 32  # a run has fewer, so that numbers of different runs differ


def _effects(
    rows: Sequence[Measurement], times: Mapping[str, FloatArray], process: IntArray, card: IntArray, *, several: bool
) -> tuple[ProcessEffects[str] | CardEffects[str], ProcessEffects[str]]:
    has_launch = any(row.timing and row.timing.timer == "nvbench" for row in rows)
    empty = {row.case.id for row in rows if not row.nbytes}
    if not several:
        own = estimate_effects(times, process, left_out=empty, has_launch=has_launch, usual_sd_us=USUAL_LAUNCH_SD_US)
        return own, own
    effects = estimate_card_effects(
        times,
        process,
        card,
        left_out=empty,
        twins={row.case.id for row in rows if row.role is Role.CONTROL},
        has_launch=has_launch,
        usual_sd_us=USUAL_LAUNCH_SD_US,
    )
    return effects, within_cards(effects)
