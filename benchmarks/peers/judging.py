"""Makes lines of what tools say: each B of a trial, by each rule; where a tool says nothing, the line says why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gdnbench.calibrate.measure import KERNEL
from gdnbench.measure.run import Finished
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.stats.interval import Verdict
from gdnbench.store.settings import Settings

from .nvbench_record import NvbenchRecord
from .peers import ONE_NUMBER, OWN, Peer
from .pilot import Planted
from .records import Line
from .rules import Judgement, Outcome, judge_outcome
from .schedule import Visit
from .task import A, Answer


class Judge(Protocol):
    """What a tool says of B against A at a workload: its times of both, and its judgement by a rule.

    Raises ValueError where it has none.
    """

    def __call__(self, rule: str, label: str, b: str) -> tuple[float, float, Judgement]:
        """A's time and B's in µs, and the judgement."""


def kernel_name(planted: Planted) -> str:
    """What tasks and answers call B."""
    return f"{planted.target:g}"


def judge_numbers(answer: Answer) -> Judge:
    """What readers make of the numbers of a function."""

    def judge(rule: str, label: str, b: str) -> tuple[float, float, Judgement]:
        times_us = answer.times_us.get(label, {})
        if A not in times_us or b not in times_us:
            raise ValueError(answer.error or f"no time of {b} at {label}")
        return times_us[A], times_us[b], ONE_NUMBER[rule](times_us[A], times_us[b])

    return judge


def judge_nvbench(path: Path, trouble: str) -> Judge:
    """What NVBench's scripts make of its JSON.

    Args:
        path: the file.
        trouble: why there may be none.
    """

    def judge(rule: str, label: str, b: str) -> tuple[float, float, Judgement]:
        if not path.exists():
            raise ValueError(trouble or "NVBench left no JSON")
        record = NvbenchRecord.read(path)
        return record.mean_us(label, A), record.mean_us(label, b), record.judge(rule, label, A, b)

    return judge


def judge_trial(planted: Sequence[Planted], visit: Visit, peer: Peer, judge: Judge, seconds: float) -> list[Line]:
    """The lines of one peer's trial: every B of every workload, by every rule.

    Args:
        planted: what B is.
        visit: the trial.
        peer: the tool.
        judge: what it says.
        seconds: what the trial took.
    """
    lines = []
    for rule in peer.rules:
        for each in planted:
            line = _bare_line(visit, peer, rule, each, seconds)
            try:
                a_us, b_us, judgement = judge(rule, each.workload, kernel_name(each))
                lines.append(_judged(line, judgement, a_us, b_us))
            except ValueError as error:
                lines.append(replace(line, reason=str(error)))
    return lines


def _bare_line(visit: Visit, peer: Peer, rule: str, planted: Planted, seconds: float, copy: int = 1) -> Line:
    return Line(
        peer=peer.name,
        rule=rule,
        group=visit.group,
        trial=visit.trial,
        workload=planted.workload,
        target=planted.target,
        copy=copy,
        chain=planted.chain,
        slowdown=planted.slowdown,
        slowdown_low=planted.low,
        slowdown_high=planted.high,
        outcome=Outcome.FAILED,
        seconds=seconds,
    )


def _judged(line: Line, judgement: Judgement, a_us: float, b_us: float) -> Line:
    return replace(
        line,
        a_us=a_us,
        b_us=b_us,
        verdict=judgement.verdict.value,
        margin=judgement.margin,
        outcome=judge_outcome(judgement, line.slowdown if line.target else None),
    )


def judge_run(planted: Sequence[Planted], visit: Visit, peer: Peer, finished: Finished, seconds: float) -> list[Line]:
    """The lines of a run of gdnbench: its own verdicts.

    Args:
        planted: what its kernels are.
        visit: the trial.
        peer: which of gdnbench's protocols it was.
        finished: the run.
        seconds: what it took.
    """
    rows = finished.analysis.measurements
    baselines = {str(row.case.workload): row for row in rows if row.role is Role.BASELINE}
    kinds: Mapping[tuple[str, int], Planted] = {(each.workload, each.chain): each for each in planted}
    margin = float(Settings().margin)
    lines = []
    for row in rows:
        if row.role is Role.KERNEL and row.case.variant.kernel == KERNEL:
            label, params = str(row.case.workload), row.case.variant.params
            what = kinds[label, int(params["CHAIN"])]
            line = _bare_line(visit, peer, OWN, what, seconds, int(params["COPY"]))
            if row.versus is None:
                lines.append(replace(line, reason=row.reason or "the run compared it with nothing"))
                continue
            judgement = Judgement(Verdict(row.versus.verdict), margin)
            lines.append(_judged(line, judgement, _time_us(baselines[label]), _time_us(row)))
    return lines


def _time_us(row: Measurement) -> float:
    return row.timing.time_us if row.timing else math.nan
