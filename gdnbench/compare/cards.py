"""Joins stored runs of several cards of one GPU model into one result, with the card as a random effect.

A pure function of `rounds.csv` with its process numbers, `measurements.csv` and `run.json`. A card is known by its
UUID; several runs of one card are one cluster of rounds. With a single card, intervals are over its processes, as those
of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from gdnbench.compare.card_run import (
    CardRun,
    check_alike,
    check_joinable,
    differing_conditions,
    read_card_run,
    shared_cases,
)
from gdnbench.compare.joint_rows import JointRows, analyse_joint
from gdnbench.errors import UsageError
from gdnbench.measuring.analyse import run_warnings
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import median_known
from gdnbench.stats.processes import process_means
from gdnbench.stats.strays import UNKNOWN_DEVIATION, Deviation, Stray, common_deviations, find_strays
from gdnbench.store.info import RunInfo


@dataclass(frozen=True, kw_only=True)
class Card:
    """A card and its measurements; `processes` and `rounds` are counted by the runs' own timer.

    Attributes:
        index: its number on its host, as `nvidia-smi` counts; -1 if unknown.
        sm_mhz: the median SM clock of its rounds, MHz; NaN where it was not measured.
        deviation: relative deviation of its times from those of the mean card.
    """

    uuid: str
    index: int
    host: str
    runs: tuple[str, ...]
    processes: int
    rounds: int
    sm_mhz: float
    deviation: Deviation = UNKNOWN_DEVIATION

    @property
    def name(self) -> str:
        """`GPU 0 (GPU-98d9fc7e)`."""
        start = self.uuid[:12]
        return f"GPU {self.index} ({start})" if self.index >= 0 else start


@dataclass(frozen=True, kw_only=True)
class Joint:
    """The joint result of several runs.

    Attributes:
        cards: in the order in which the runs name them.
        measurements: a row per case that all runs have, by their own timer; percentiles are not known.
        failed: cases without a time in some run, with the first reason and, unless they failed on all, the card.
        clocks: the rows by each further clock that all runs have.
        left_out: labels of the cases that are not joined, by the reason.
    """

    runs: tuple[CardRun, ...]
    cards: tuple[Card, ...]
    measurements: tuple[Measurement, ...]
    failed: tuple[Measurement, ...]
    clocks: Mapping[Clock, tuple[Measurement, ...]]
    strays: tuple[Stray, ...]
    warnings: tuple[str, ...]
    left_out: Mapping[str, tuple[str, ...]]

    @property
    def info(self) -> RunInfo:
        """The first run's description; op, GPU model, baseline and settings are those of all."""
        return self.runs[0].info

    @cached_property
    def by_card(self) -> Mapping[str, Joint]:
        """The result of each card alone, by UUID, with intervals over its processes; empty if there is one card."""
        if len(self.cards) < 2:
            return {}
        return {card.uuid: _join([run for run in self.runs if run.uuid == card.uuid]) for card in self.cards}


def join_runs(folders: Sequence[Path]) -> Joint:
    """Joins runs of one op and one GPU model; of several copies of a run the first counts.

    Raises:
        UsageError: if they cannot be joined, or no case is in all of them.
        RunFormatError: if one cannot be read.
    """
    found: dict[tuple[str, str], CardRun] = {}
    for run in map(read_card_run, folders):
        found.setdefault((run.info.run_id, run.uuid), run)  # two hosts may begin runs in one second
    runs = list(found.values())
    for run in runs:
        check_joinable(run)
    for run in runs[1:]:
        check_alike(runs[0], run)
    return _join(runs)


def _join(runs: Sequence[CardRun]) -> Joint:
    shared, left_out = shared_cases(runs)
    if not shared:
        told = "; ".join(why for why in left_out) or "they have no times"
        raise UsageError(f"no case can be joined: {told}", "join runs that share kernels and workloads")
    clocks: list[Clock | None] = [None, *dict.fromkeys(clock for _, clock in runs[0].rows if clock)]
    analysed = {clock: analyse_joint(runs, shared, clock) for clock in clocks}
    by_clock = {clock: each for clock, each in analysed.items() if clock and each.rows}
    own = analysed[None]
    cards = _cards(runs, own, by_clock.get("cupti"))
    warnings = list(dict.fromkeys(warning for run in runs for warning in run.info.warnings if _is_of_machine(warning)))
    warnings += [*differing_conditions(runs), *run_warnings(own.rows)]
    warnings += [f"{clock}: {warning}" for clock, each in by_clock.items() for warning in run_warnings(each.rows)]
    return Joint(
        runs=tuple(runs),
        cards=tuple(cards),
        measurements=own.rows,
        failed=tuple(_failed(runs, cards)),
        clocks={clock: each.rows for clock, each in by_clock.items()},
        strays=tuple(find_strays([card.deviation for card in cards])),
        warnings=(*warnings, *own.launch_warnings()),
        left_out=left_out,
    )


def _failed(runs: Sequence[CardRun], cards: Sequence[Card]) -> Iterator[Measurement]:
    names = {card.uuid: card.name for card in cards}
    for case_id in dict.fromkeys(case_id for run in runs for case_id in run.failed):
        failing = [run for run in runs if case_id in run.failed]
        row = failing[0].failed[case_id]
        where = ", ".join(dict.fromkeys(names[run.uuid] for run in failing))
        yield row if len(failing) == len(runs) else replace(row, reason=f"on {where}: {row.reason}")


def _is_of_machine(warning: str) -> bool:
    """Whether a run's warning qualifies its times; warnings of the baseline are made anew for all runs together."""
    return "other processes are on the GPU" in warning


def _cards(runs: Sequence[CardRun], own: JointRows, kernel_times: JointRows | None) -> list[Card]:
    uuids = list(dict.fromkeys(run.uuid for run in runs))
    deviations = _deviations(kernel_times or own, uuids, has_launch=kernel_times is None)
    return [
        _card([run for run in runs if run.uuid == uuid], deviation)
        for uuid, deviation in zip(uuids, deviations, strict=True)
    ]


def _card(runs: Sequence[CardRun], deviation: Deviation) -> Card:
    machine = runs[0].info.machine
    own = [each for run in runs for (_, clock), each in run.rounds.items() if clock is None]
    clocks = [mhz for each in own if each.sm_mhz is not None for mhz in each.sm_mhz.tolist()]
    spans = [_span(run) for run in runs]
    return Card(
        uuid=runs[0].uuid,
        index=int((machine.get("gpu") or {}).get("index", -1)),
        host=str(machine.get("host", {}).get("hostname") or ""),
        runs=tuple(run.info.run_id for run in runs),
        processes=sum(processes for processes, _ in spans),
        rounds=sum(rounds for _, rounds in spans),
        sm_mhz=median_known(clocks),
        deviation=deviation,
    )


def _span(run: CardRun) -> tuple[int, int]:
    """The numbers of processes and rounds of a run by its own timer, the largest over its cases."""
    own = [each for (_, clock), each in run.rounds.items() if clock is None]
    there = [np.isfinite(each.times_us) for each in own]
    processes = [len(np.unique(each.processes[known])) for each, known in zip(own, there, strict=True)]
    return max(processes, default=0), max((int(known.sum()) for known in there), default=0)


def _deviations(analysed: JointRows, uuids: Sequence[str], *, has_launch: bool) -> list[Deviation]:
    """The deviation of each card, over all cases but the empty floors and the controls, which repeat the baseline."""
    if len(uuids) < 2:
        return [UNKNOWN_DEVIATION] * len(uuids)
    told = [row.case for row in analysed.rows if row.nbytes and row.role is not Role.CONTROL]
    columns: list[FloatArray] = []
    for case in told:
        pooled = analysed.times[case.workload]
        columns.append(process_means(pooled.times[case.id], pooled.card, len(uuids)))
    if not columns:
        return [UNKNOWN_DEVIATION] * len(uuids)
    return common_deviations(np.array(columns).T, has_launch=has_launch)
