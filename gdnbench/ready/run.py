"""Runs all checks in order, whether or not earlier ones passed; the last is for a stored run.

That is a run of the kernel's current code at every workload of the suite, and its verdict. Runs without a GPU do not
count, nor do sweeps, which race the points of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.analyse.exit_code import gravest
from gdnbench.analyse.suite import SuiteResult, SuiteRow, suite_of_run
from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import Broken, label_parts
from gdnbench.catalog.select import broken_kernel, find_variant, resolve_op
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.model.case import Case, CodeState
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.origin import out_option
from gdnbench.ready.checks import (
    RULE,
    Candidate,
    Readiness,
    ReadyCheck,
    ReadyOptions,
    check_build,
    check_memory,
    check_source,
    choose_suite,
    failed,
    judge_numbers,
    passed,
    unchecked,
    verify_candidate,
)
from gdnbench.stats.interval import Verdict
from gdnbench.store.find import readable, runs_beside
from gdnbench.store.info import RunInfo, is_step, read_info
from gdnbench.store.measurements import read_run
from gdnbench.verify.preflight import Verification
from gdnbench.wording import first_of, plural

_MOST_SUITED = 3  # of the workloads that a run lacks


@dataclass(frozen=True)
class CandidateRun:
    """A run that has the kernel: its code's state, the workloads of the suite that it lacks, and claims that held."""

    folder: Path
    code: CodeState
    lacking: tuple[Workload, ...]
    held: tuple[str, ...] = ()

    @property
    def serves(self) -> bool:
        """Whether the run has the current code at every workload."""
        return self.code is CodeState.CURRENT and not self.lacking


def check_run(candidate: Candidate) -> ReadyCheck:
    """Judges the newest readable run that has the kernel's code at every workload of the suite."""
    runs = list(_runs_with(candidate))
    serving = [run.folder for run in runs if run.serves]
    judged = next(readable(serving, lambda folder: _judge(candidate, folder)), None)
    found = judged or unchecked(_missing_run_text(candidate, runs), run_command(candidate))
    return replace(found, what=f"{found.what}{_lost_claims(candidate, runs)}")


def _lost_claims(candidate: Candidate, runs: Sequence[CandidateRun]) -> str:
    """Names what the newest run with claims of the kernel's shows it to be invariant to, and it claims no more."""
    newest = next((run for run in runs if run.held), None)
    owner = candidate.catalog.owner(candidate.label)
    if newest is None or owner is None:
        return ""
    lost = [kind for kind in newest.held if kind not in owner.kernel.invariant]
    return f"; no longer claims {', '.join(lost)} invariance, which held in {newest.folder.name}" if lost else ""


def run_command(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command that measures the candidate over the suite."""
    return candidate.command("run", "--suite", candidate.suite.name, *out_option(candidate.terms.results))


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
            held = tuple(kind for kind, has_held in info.claims.get(candidate.label, {}).items() if has_held)
            yield CandidateRun(folder, _code_of(candidate.catalog, info, own), lacking, held)


def _code_of(catalog: Catalog, info: RunInfo, cases: Sequence[Case]) -> CodeState:
    """Returns the joint state of the kernel's code: for a dispatcher also its table and every kernel that it picked."""
    owner = catalog.owner(label_parts(cases[0].label)[0])
    names = {*(case.variant.kernel for case in cases), *([owner.kernel.name] if owner else [])}
    return CodeState.together(catalog.code_state(name, info.sources.get(name, "")) for name in names)


def _missing_run_text(candidate: Candidate, runs: Sequence[CandidateRun]) -> str:
    """Describes the nearest run, newest first: one of this code that lacks workloads, one of other code, or none."""
    suite = candidate.suite
    if partial := next((run for run in runs if run.code is CodeState.CURRENT), None):
        lacking = first_of([workload.titled for workload in partial.lacking], _MOST_SUITED)
        return f"{suite.name}: no run of this code at every workload; {partial.folder.name} lacks {lacking}"
    if runs:
        message = "is of other code" if runs[0].code is CodeState.CHANGED else "does not say of which code it is"
        return f"{suite.name}: no run of this code; {runs[0].folder.name} {message}"
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
        return unchecked(f"{named}: the run has no baseline to compare with", run_command(candidate))
    result = suite_of_run(folder, info, rows, candidate.suite, ())
    row = next((row for row in result.rows if row.label == candidate.label), None) if result else None
    if result is None or row is None or not result.summed:
        return unchecked(f"{named}: there is no workload at which it can be compared", run_command(candidate))
    return _verdict(named, result, row, shown)


def _untimed(candidate: Candidate, named: str, rows: Sequence[Measurement], shown: Sequence[str]) -> ReadyCheck:
    first = next((row for row in rows if row.status.is_failure), rows[0])
    more = f" (and at {plural(len(rows) - 1, 'more workload')})" if len(rows) > 1 else ""
    message = f"{named}: {first.status}: {first.reason}, at {first.case.workload.titled}{more}"
    code = gravest(row.status for row in rows) or ExitCode.PARTIAL
    return failed(message, shown, code) if first.status.is_failure else unchecked(message, run_command(candidate), code)


def _verdict(named: str, result: SuiteResult, row: SuiteRow, shown: Sequence[str]) -> ReadyCheck:
    """Fails a kernel that is slower than the baseline over the whole suite; being slower at some workloads passes."""
    left_out = f"; {plural(len(result.left_out), 'workload')} left out, without the baseline" if result.left_out else ""
    if row.comparison is None or row.worst is None:
        return passed(f"{named}: {row.label} is the baseline{left_out}", shown)
    speedup, verdict = row.comparison.speedup, row.comparison.verdict
    message = (
        f"{named}: weighted mean {speedup.estimate:.3f}x vs {', '.join(result.over)}, {verdict}; reads slower at"
        f" {row.slower_at(result.margin)} of {plural(result.summed, 'workload')}, worst"
        f" {row.speedups[row.worst]:.3f}x at {row.worst.titled}{left_out}"
    )
    return failed(message, shown, ExitCode.REGRESSION) if verdict is Verdict.SLOWER else passed(message, shown)


_NOT_HERE = {ExitCode.ENVIRONMENT, ExitCode.PROFILER}


def check_kernel(catalog: Catalog, op: str, name: str, terms: ReadyOptions) -> Readiness:
    """Checks one kernel: a kernel or a preset, params after colons; an empty op is that of the kernel."""
    if broken := broken_kernel(catalog, name):
        return _of_broken(name, broken, terms)
    declared = find_op(catalog, resolve_op(catalog, op, [name]))
    _, variant = find_variant(catalog, declared.name, name)
    candidate = Candidate(catalog, declared, variant.label, choose_suite(declared, terms.suite), terms)
    verified: Verified = []
    checks = tuple(_attempt(each, candidate, verified) for each in CHECKLIST)
    return Readiness(candidate.label, declared.name, candidate.suite.name, checks)


Verified = list[Verification]
"""The verification of a kernel; empty before it is there, and if there cannot be one."""


def _check_numbers(candidate: Candidate, verified: Verified) -> ReadyCheck:
    verified.append(verify_candidate(candidate))
    return judge_numbers(candidate, verified[0])


def _check_sanitizer(candidate: Candidate, verified: Verified) -> ReadyCheck:
    if not verified:
        return unchecked("it was not verified, so it is not launched", candidate.command("verify"))
    return check_memory(candidate, verified[0])


CHECKLIST: Mapping[str, tuple[tuple[str, ...], Callable[[Candidate, Verified], ReadyCheck]]] = {
    "source": (("verify",), lambda it, _: check_source(it)),
    "build": (("inspect", "--fail-on", RULE), lambda it, _: check_build(it)),
    "numbers": (("verify",), _check_numbers),
    "sanitizer": (("verify", "--sanitize"), _check_sanitizer),
    "suite": ((), lambda it, _: check_run(it)),
}
"""What a kernel is held to before it is sent, in order: the verb that does the same, if not `run`, and the check."""


def _attempt(name: str, candidate: Candidate, verified: Verified) -> ReadyCheck:
    """Returns a check, or what kept it from an answer; a usage error is raised."""
    words, check = CHECKLIST[name]
    try:
        found = check(candidate, verified)
    except GdnbenchError as error:
        if error.exit_code is ExitCode.USAGE:
            raise
        message = error.message.strip().partition("\n")[0].rstrip(".")
        make = unchecked if error.exit_code in _NOT_HERE else failed
        found = make(message, candidate.command(*words) if words else run_command(candidate), error.exit_code)
    return replace(found, name=name)


def _of_broken(name: str, broken: Broken, terms: ReadyOptions) -> Readiness:
    listing = ("gdnbench", "list")
    first = failed(f"it does not load: {broken.reason}", listing, ExitCode.BUILD)
    rest = unchecked("not looked at: it does not load", listing, ExitCode.BUILD)
    checks = tuple(replace(rest if place else first, name=each) for place, each in enumerate(CHECKLIST))
    return Readiness(name, broken.name.partition("/")[0], terms.suite, checks)
