"""Checks whether a kernel loads, shows known mistakes, builds and launches everywhere, and has right numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from gdnbench.analyse.exit_code import worst_exit_code
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import repeat_words
from gdnbench.catalog.select import find_variant
from gdnbench.errors import ExitCode, UsageError
from gdnbench.inspect import compiled
from gdnbench.inspect.quantities import exit_code, find_violations, parse_rules
from gdnbench.model.case import Case
from gdnbench.model.declaration import CONTEST_SUITE
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.op import DEFAULT_SUITE, VERIFY_SUITE, Op, Suite
from gdnbench.model.status import INVARIANCES, Status
from gdnbench.process.events import Observer
from gdnbench.profile.sanitizer import LIMIT_STEPS, PROGRAM, SanitizerCheck, SanitizerTool, need_sanitizer_on
from gdnbench.verify import preflight
from gdnbench.verify.moved_loads import moved_loads
from gdnbench.verify.preflight import Verification
from gdnbench.wording import plural


class CheckStatus(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"  # it cannot be answered here, or the tool or run that would answer it is missing


@dataclass(frozen=True)
class ReadyCheck:
    """One check: `what` is a sentence without a full stop; `command` shows more, or does what is missing.

    Its `name` is that of its line of the checklist.
    """

    status: CheckStatus
    what: str
    command: Sequence[str]
    code: ExitCode = ExitCode.OK
    name: str = ""


def passed(what: str, command: Sequence[str]) -> ReadyCheck:
    """Makes a check that passed."""
    return ReadyCheck(CheckStatus.PASSED, what, command)


def failed(what: str, command: Sequence[str], code: ExitCode) -> ReadyCheck:
    """Makes a check that failed."""
    return ReadyCheck(CheckStatus.FAILED, what, command, code)


def unchecked(what: str, command: Sequence[str], code: ExitCode = ExitCode.PARTIAL) -> ReadyCheck:
    """Makes a check without an answer."""
    return ReadyCheck(CheckStatus.UNCHECKED, what, command, code)


@dataclass(frozen=True)
class Readiness:
    """The result of all checks of a kernel, in the order in which they ran."""

    kernel: str
    op: str
    suite: str
    checks: tuple[ReadyCheck, ...]

    @property
    def is_ready(self) -> bool:
        """Whether every check passed."""
        return all(check.status is CheckStatus.PASSED for check in self.checks)

    @property
    def wanting(self) -> list[ReadyCheck]:
        """The failures, then the checks without an answer."""
        order = (CheckStatus.FAILED, CheckStatus.UNCHECKED)
        return [check for status in order for check in self.checks if check.status is status]

    @property
    def exit_code(self) -> ExitCode:
        """0 if ready, else the code of the gravest failure; without failures, that of the gravest unanswered check."""
        return worst_exit_code(check.code for check in self.wanting if check.status is self.wanting[0].status)

    @property
    def next_command(self) -> Sequence[str]:
        """The command of the first failure, else of the first unanswered check, else of the last check."""
        return (*self.wanting, self.checks[-1])[0].command


@dataclass(frozen=True, kw_only=True)
class ReadyOptions:
    """The terms by which a kernel is checked.

    An empty `suite` is the op's contest, or its default suite if it has none; `gpu_requested` is the value of `--gpu`.
    """

    suite: str
    gpu: Gpu | None
    gpu_requested: str
    step_limit_s: float
    results: Path
    observer: Observer


@dataclass(frozen=True)
class Candidate:
    """A kernel that loaded, by the user's label with params, and the suite that measures it."""

    catalog: Catalog
    op: Op
    label: str
    suite: Suite
    terms: ReadyOptions

    def command(self, verb: str, *words: str) -> tuple[str, ...]:
        """Returns the command of a verb for the kernel."""
        return ("gdnbench", verb, self.label, *words)


def choose_suite(op: Op, wanted: str) -> Suite:
    """Returns the suite of a name, by default the contest's if the op has one; raises UnknownNameError."""
    return op.suite(wanted or (CONTEST_SUITE if CONTEST_SUITE in op.suites else DEFAULT_SUITE))


RULE = "spills"
"""What no build may do, as `inspect --fail-on` has it."""


def check_build(candidate: Candidate) -> ReadyCheck:
    """Builds every launch at every workload of the suite, because params and code may depend on the workload."""
    try:
        subjects, _ = compiled.choose_subjects(
            candidate.catalog, candidate.op.name, [candidate.label], candidate.suite.workloads
        )
    except UsageError as error:
        return unchecked(error.message, _alternative(candidate))
    archs = _fitting(compiled.choose_archs("", ()), subjects)
    outcomes = compiled.build_subjects(
        subjects, archs, lambda arch: compiled.gpu_size_of(arch, ()), candidate.terms.observer
    )
    command = candidate.command("inspect", *(("--arch", ",".join(archs)) if archs else ()), "--fail-on", RULE)
    failures = [(each, each.error.message) for each in outcomes if isinstance(each, compiled.FailedBuild)]
    refusals = [(each, each.refused) for each in outcomes if isinstance(each, compiled.CompiledKernel) and each.refused]
    if wrong := failures or refusals:
        first, reason = wrong[0]
        message = _text_of_failures(f"{first.subject.title} {first.subject.workload} {first.arch}: {reason}", wrong)
        code = ExitCode.BUILD if failures else exit_code(outcomes, ())
        return failed(message, (*command, *first.subject.workload.options), code)
    if broken := find_violations(outcomes, parse_rules(RULE)):
        shown = (*command, *broken[0].compiled.subject.workload.options)
        return failed(_text_of_failures(str(broken[0]), broken), shown, exit_code(outcomes, broken))
    workloads = plural(len({subject.workload for subject in subjects}), "workload")
    return passed(f"builds for {' and '.join(archs)} at {workloads}; {RULE}: none", command)


def _alternative(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command if nothing can be built: a suite whose workloads the kernel can all do, or its listing."""
    kernel = find_variant(candidate.catalog, candidate.op.name, candidate.label)[0].kernel
    for name in candidate.op.suites if isinstance(kernel, CudaKernel | TritonKernel) else ():
        if not any(map(kernel.unsupported_reason, candidate.op.suite(name).workloads)):
            return candidate.command("verify", "--ready", "--suite", name)
    return candidate.command("list")


def _fitting(archs: Sequence[str], subjects: Sequence[compiled.Subject]) -> tuple[str, ...]:
    """Returns the usual architectures whose instructions the kernel has; if there are none, its own target."""
    if any(all(one.entry.kernel.fits(arch) for one in subjects) for arch in archs):
        return compiled.fitting_archs(archs, subjects)[0]
    kernels = [one.entry.kernel for one in subjects]
    targets = [each.target.rstrip("af") or each.since for each in kernels if isinstance(each, CudaKernel)]
    return tuple(dict.fromkeys(filter(None, targets)))


def _text_of_failures(first: str, among: Sequence[object]) -> str:
    """Returns the first line of the first of several failures, and the number of others."""
    line = first.strip().partition("\n")[0]
    return f"{line} (and {len(among) - 1} more)" if len(among) > 1 else line


def verify_candidate(candidate: Candidate) -> Verification:
    """Verifies all inputs at the op's `verify` workloads, as `gdnbench verify` does; may raise GdnbenchError."""
    terms = candidate.terms
    return preflight.verify_variants(
        candidate.catalog,
        candidate.op.name,
        candidate.label,
        axes="",
        seed=None,
        step_limit_s=terms.step_limit_s,
        gpu=terms.gpu,
        observer=terms.observer,
    )


def judge_numbers(candidate: Candidate, verification: Verification) -> ReadyCheck:
    """Passes if every supported case is right; a case that cannot run here leaves the check without an answer."""
    kernels = candidate.catalog.entries
    unable = {
        case: kernels[case.variant.kernel].kernel.unsupported_reason(case.workload) for case in verification.cases
    }
    cases = [case for case, reason in unable.items() if not reason]
    if not cases:
        message = f"it can do no workload of {VERIFY_SUITE}: {next(iter(unable.values()))}"
        return unchecked(message, candidate.command("verify"))
    wrong = [case for case in cases if verification.checked[case.id].status.is_failure]
    if wrong:
        more = f" (and at {plural(len(wrong) - 1, 'more workload')})" if len(wrong) > 1 else ""
        message = f"{_status_text(verification, wrong[0])}, at {wrong[0].workload}{more}; {_where(verification)}"
        return failed(message, repeat_words(wrong[0], verification.seed), verification.exit_code)
    command = candidate.command("verify")
    left_out = [case for case in cases if verification.checked[case.id].status is not Status.OK]
    if left_out:
        reason = verification.checked[left_out[0].id].reason
        message = f"not verified at {len(left_out)} of {plural(len(cases), 'workload')}: {reason}"
        return unchecked(message, command, verification.exit_code or ExitCode.PARTIAL)
    workloads = f"{plural(len(cases), 'workload')}, {plural(len(candidate.op.scenarios), 'kind')} of inputs"
    message = f"right at {workloads}; {_where(verification)}"
    held = {each.kind for case in cases for each in verification.checked[case.id].invariance if not each.skipped}
    if held:  # of claims alone: one that does not hold is wrong
        message += f"; claims hold: {', '.join(kind for kind in INVARIANCES if kind in held)}"
    if refused := [reason for reason in unable.values() if reason]:
        message += f"; it cannot do {len(refused)} more: {refused[0]}"
    return passed(message, command)


def check_memory(candidate: Candidate, verification: Verification) -> ReadyCheck:
    """Runs every tool of compute-sanitizer, as `gdnbench verify --sanitize` does."""
    terms = candidate.terms
    sanitizer = need_sanitizer_on(terms.gpu_requested)
    assert terms.gpu
    limit_s = terms.step_limit_s * LIMIT_STEPS
    check = SanitizerCheck(candidate.catalog, sanitizer, terms.gpu, limit_s, terms.observer)
    # The numbers are another check: here a case fails only for what a tool finds, or cannot find out.
    afresh = {case_id: replace(found, gates=()) for case_id, found in verification.checked.items()}
    found = check.add_to(replace(verification, checked=afresh))
    command = candidate.command("verify", "--sanitize")
    cases = [case for case in found.cases if case.id in found.sanitized]
    if not cases:
        notes = [note for case in found.cases for note in found.checked[case.id].notes if note.startswith(PROGRAM)]
        message = notes[0] if notes else f"no case can be launched under {PROGRAM}"
        return unchecked(message, command)
    for case in cases:
        verdict = found.checked[case.id]
        unsafe = any(not gate.passed for gate in verdict.gates)
        if unsafe or (verdict.status is not Status.OK and afresh[case.id].status is Status.OK):
            shown = (*repeat_words(case, found.seed), "--sanitize")
            return failed(f"{_status_text(found, case)}, at {case.workload}", shown, verdict.status.exit_code)
    message = f"nothing found at {cases[0].workload} by {_tools(found, cases, answered=True)}"
    if silent := _tools(found, cases, answered=False):
        message += f"; {silent} gave no answer"
    if bad := next((status for case in cases if (status := found.checked[case.id].status) is not Status.OK), None):
        return unchecked(f"{message}: the kernel is {bad}", command)
    return passed(message, command)


def _tools(found: Verification, cases: Sequence[Case], *, answered: bool) -> str:
    gates = [{gate.gate for gate in found.checked[case.id].gates} for case in cases]
    return ", ".join(tool for tool in SanitizerTool if all(f"{PROGRAM} {tool}" in each for each in gates) is answered)


def _status_text(verification: Verification, case: Case) -> str:
    verdict = verification.checked[case.id]
    return f"{verdict.status}: {verdict.reason}"


def _where(verification: Verification) -> str:
    """Describes what ran the candidate: `on NVIDIA H200, seed 7`, or an interpreter `without a GPU`."""
    if verification.interpreted:
        message = f"in {' and '.join(dict.fromkeys(verification.interpreted.values()))}, without a GPU"
    else:
        message = f"on {verification.device}"
    return f"{message}, seed {verification.seed}"


def check_source(candidate: Candidate) -> ReadyCheck:
    """Looks for loads in the kernel's Triton that may be issued before a store."""
    _, variant = find_variant(candidate.catalog, candidate.op.name, candidate.label)
    found = moved_loads(candidate.catalog, variant.kernel)
    command = candidate.command("verify")
    if not found:
        return passed("it loads; no load in Triton may move before a store", command)
    more = f" (and {len(found) - 1} more)" if found[1:] else ""
    return failed(f"{found[0]}{more}", command, ExitCode.REGRESSION)
