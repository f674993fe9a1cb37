"""Pools the round times of a workload's cases from several runs, with the effects of processes and cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.stats import FloatArray, IntArray
from gdnbench.stats.cards import CardEffects, estimate_card_effects, within_cards
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, ProcessEffects, estimate_effects
from gdnbench.store.samples import CaseRounds, processes_of

RunRounds = tuple[str, Mapping[str, CaseRounds]]
"""The UUID of a run's card, and the rounds of each case by its id."""


@dataclass(frozen=True)
class PooledTimes:
    """The rounds of all runs, one run after the other.

    Attributes:
        times: shape (rounds,) by case id, microseconds, NaN where a round is missing.
        sm_mhz: shape (rounds,) by case id, the SM clock of each round, MHz, NaN if unknown.
        card: shape (rounds,), the card of each round, numbered from 0 in the order of the runs.
        effects: of cards and processes, or of processes alone if there is one card.
        of_same_code: the effects for comparing a case with another of the same code.
    """

    times: Mapping[str, FloatArray]
    sm_mhz: Mapping[str, FloatArray]
    card: IntArray
    effects: ProcessEffects[str] | CardEffects[str]
    of_same_code: ProcessEffects[str]


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
            sm_mhz[case_id].append(_clocks(rounds[case_id])[there])
        process.append(of_run[there] + number * _MOST_PROCESSES)
        card.append(np.full(int(there.sum()), uuids.index(uuid)))
    joined, clocks = ({case_id: np.concatenate(parts) for case_id, parts in each.items()} for each in (times, sm_mhz))
    card_of_round = np.concatenate(card)
    own, of_same_code = _effects(rows, joined, np.concatenate(process), card_of_round, several=len(uuids) > 1)
    return PooledTimes(joined, clocks, card_of_round, own, of_same_code)


def _clocks(rounds: CaseRounds) -> FloatArray:
    return np.full(rounds.times_us.shape, np.nan) if rounds.sm_mhz is None else rounds.sm_mhz


_MOST_PROCESSES = 1 << 32  # a run has fewer, so that numbers of different runs differ


def _effects(
    rows: Sequence[Measurement], times: Mapping[str, FloatArray], process: IntArray, card: IntArray, *, several: bool
) -> tuple[ProcessEffects[str] | CardEffects[str], ProcessEffects[str]]:
    """The effects on ratios and times, and those on two measurements of the same code."""
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
