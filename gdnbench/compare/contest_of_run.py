"""Scores a stored run as the FlashInfer contest would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.compare.contest import ContestResult, StoredTimes, judge_contest
from gdnbench.errors import UsageError
from gdnbench.model.op import Op
from gdnbench.model.status import Clock
from gdnbench.store.info import RunInfo, read_info, suite_of
from gdnbench.store.measurements import read_clocks, read_run
from gdnbench.store.samples import read_case_rounds
from gdnbench.store.step import is_step
from gdnbench.store.sweep import read_sweep


@dataclass(frozen=True)
class ContestRun:
    """A stored run and its contest scores."""

    folder: Path
    info: RunInfo
    result: ContestResult


def has_workloads(folder: Path, ops: Mapping[str, Op], suite: str) -> bool:
    """Whether a run has kernels at any workload of its op's suite, for choosing a run where none is named.

    RunFormatError is raised if the folder has no readable run.
    """
    info = read_info(folder)
    op = ops.get(info.op)
    if op is None or suite not in op.suites or info.swept or is_step(folder):
        return False
    sizes, complete = {each.at("") for each in op.suite(suite).workloads}, op.workloads.completed
    return any(complete(info.workloads.stored_case(case)).at("") in sizes for case in info.cases)


def contest_of_run(folder: Path, op: Op, suite: str, over: Sequence[str]) -> ContestRun:
    """Scores a run by a suite, with the weights stored with the run, else with the op's present ones.

    `over` are the kernels to compare with; by default FlashInfer's, else the run's baseline.

    Raises:
        UsageError: for a sweep or a step, and if the run measured no workload of the suite, or has no baseline.
        UnknownNameError: if the op has no such suite, or the run no times of a kernel to compare with.
        RunFormatError: if the folder has no readable run.
    """
    if read_sweep(folder):
        raise UsageError(f"{folder.name} is no run of kernels over workloads", "name a run: gdnbench runs lists them")
    info, measurements = read_run(folder)
    chosen = suite_of(info)
    if chosen is None or chosen.name != suite:
        chosen = op.suite(suite).as_stored(row.case.workload for row in measurements)
    by_profile = chosen.by_profile()  # the contest's own inputs are most like the first
    chosen = by_profile.get("", next(iter(by_profile.values())))
    rounds = read_case_rounds(folder)
    times: dict[Clock | None, StoredTimes] = {
        clock: StoredTimes(rows, {case: found for (case, by), found in rounds.items() if by == clock})
        for clock, rows in [(None, measurements), *read_clocks(folder).items()]
    }
    return ContestRun(folder, info, judge_contest(info, times, chosen, over=over, scenario=op.scenarios[0]))
