"""Checks for a run of the kernel's current code at every workload of the suite, and its verdict.

Runs without a GPU do not count, nor do sweeps, which race the points of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.analyse.suite import SuiteResult, SuiteRow, suite_of_run
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import label_parts
from gdnbench.errors import ExitCode
from gdnbench.measure.exit_code import gravest
from gdnbench.model.case import Case, CodeState
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import out_option
from gdnbench.ready.check import Candidate, ReadyCheck, failed, passed, unchecked
from gdnbench.stats.interval import Verdict
from gdnbench.store.find import readable, runs_beside
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_run
from gdnbench.store.tables import is_step
from gdnbench.wording import first_of, plural

NAME = "suite"
_MOST_NAMED = 3  # of the workloads that a run lacks


@dataclass(frozen=True)
class CandidateRun:
    """A run that has the kernel, with its code's state and the workloads of the suite that it lacks."""

    folder: Path
    code: CodeState
    lacking: tuple[Workload, ...]

    @property
    def serves(self) -> bool:
        """Whether the run has the current code at every workload."""
        return self.code is CodeState.CURRENT and not self.lacking


def check_run(candidate: Candidate) -> ReadyCheck:
    """Judges the newest readable run that has the kernel's code at every workload of the suite."""
    runs = list(_runs_with(candidate))
    serving = [run.folder for run in runs if run.serves]
    judged = next(readable(serving, lambda folder: _judge(candidate, folder)), None)
    return judged or unchecked(NAME, _tell_missing(candidate, runs), run_words(candidate), ExitCode.PARTIAL)


def run_words(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command that measures the candidate over the suite."""
    words = ("gdnbench", "run", candidate.label, "--suite", candidate.suite.name)
    return (*words, *out_option(candidate.terms.results))


def _runs_with(candidate: Candidate) -> Iterable[CandidateRun]:
    """Yields the complete GPU runs that have the kernel, newest first; unreadable ones are left out."""
    found = readable(runs_beside(candidate.terms.results), lambda folder: (folder, read_info(folder)))
    for folder, info in found:
        if info.op != candidate.op.name or not (info.complete and info.on_gpu) or info.swept or is_step(folder):
            continue
        cases = [Case.from_dict(case, info.workloads) for case in info.cases]
        own = [case for case in cases if case.label == candidate.label]
        if own:
            measured = {candidate.op.workloads.completed(case.workload) for case in own}
            lacking = tuple(workload for workload in candidate.suite.workloads if workload not in measured)
            yield CandidateRun(folder, _code_of(candidate.catalog, info, own), lacking)


def _code_of(catalog: Catalog, info: RunInfo, cases: Sequence[Case]) -> CodeState:
    """Returns the joint state of the kernel's code: for a dispatcher also its table and every kernel that it picked."""
    owner = catalog.owner(label_parts(cases[0].label)[0])
    names = {*(case.variant.kernel for case in cases), *([owner.kernel.name] if owner else [])}
    return CodeState.together(catalog.code_state(name, info.sources.get(name, "")) for name in names)


def _tell_missing(candidate: Candidate, runs: Sequence[CandidateRun]) -> str:
    """Describes the nearest run, newest first: one of this code that lacks workloads, one of other code, or none."""
    suite = candidate.suite
    if partial := next((run for run in runs if run.code is CodeState.CURRENT), None):
        lacking = first_of([workload.titled for workload in partial.lacking], _MOST_NAMED)
        return f"{suite.name}: no run of this code at every workload; {partial.folder.name} lacks {lacking}"
    if runs:
        told = "is of other code" if runs[0].code is CodeState.CHANGED else "does not tell of which code it is"
        return f"{suite.name}: no run of this code; {runs[0].folder.name} {told}"
    return f"{suite.name}: no run of this code"


def _judge(candidate: Candidate, folder: Path) -> ReadyCheck:
    info, rows = read_run(folder)
    shown = ("gdnbench", "show", folder.name, *out_option(candidate.terms.results), "--suite", candidate.suite.name)
    named = f"{candidate.suite.name} in {folder.name}"
    own = [
        row
        for row in rows
        if row.case.label == candidate.label
        and row.role is not Role.CONTROL
        and candidate.op.workloads.completed(row.case.workload) in candidate.suite.weights
    ]
    if untimed := [row for row in own if row.status is not Status.OK or row.timing is None]:
        return _untimed(candidate, named, untimed, shown)
    if not any(row.role is Role.BASELINE for row in rows):
        told = f"{named}: the run has no baseline to compare with"
        return unchecked(NAME, told, run_words(candidate), ExitCode.PARTIAL)
    result = suite_of_run(folder, info, rows, candidate.suite, ())
    row = next((row for row in result.rows if row.label == candidate.label), None) if result else None
    if result is None or row is None or not result.summed:
        told = f"{named}: there is no workload at which it can be compared"
        return unchecked(NAME, told, run_words(candidate), ExitCode.PARTIAL)
    return _verdict(named, result, row, shown)


def _untimed(candidate: Candidate, named: str, rows: Sequence[Measurement], shown: Sequence[str]) -> ReadyCheck:
    first = next((row for row in rows if row.status.is_failure), rows[0])
    more = f" (and at {plural(len(rows) - 1, 'more workload')})" if len(rows) > 1 else ""
    told = f"{named}: {first.status}: {first.reason}, at {first.case.workload.titled}{more}"
    code = gravest(row.status for row in rows)
    if not first.status.is_failure:
        return unchecked(NAME, told, run_words(candidate), code or ExitCode.PARTIAL)
    return failed(NAME, told, shown, code or ExitCode.PARTIAL)


def _verdict(named: str, result: SuiteResult, row: SuiteRow, shown: Sequence[str]) -> ReadyCheck:
    """Fails a kernel that is slower than the baseline over the whole suite; being slower at some workloads passes."""
    left_out = f"; {plural(len(result.left_out), 'workload')} left out, without the baseline" if result.left_out else ""
    if row.comparison is None or row.worst is None:
        return passed(NAME, f"{named}: {row.label} is the baseline{left_out}", shown)
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    told = (
        f"{named}: weighted mean {speedup.estimate:.3f}x vs {', '.join(result.over)}, {verdict}; reads slower at"
        f" {row.slower_at(result.margin)} of {plural(result.summed, 'workload')}, worst"
        f" {row.speedups[row.worst]:.3f}x at {row.worst.titled}{left_out}"
    )
    if verdict is Verdict.SLOWER:
        return failed(NAME, told, shown, ExitCode.REGRESSION)
    return passed(NAME, told, shown)
