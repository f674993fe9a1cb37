"""Checks a kernel's numbers, and its memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdnbench.errors import ExitCode
from gdnbench.measuring import preflight
from gdnbench.measuring.preflight import Verification
from gdnbench.measuring.repeat import repeat_words
from gdnbench.model.case import Case
from gdnbench.model.op import VERIFY_SUITE
from gdnbench.model.status import Status
from gdnbench.profilers.sanitizer.check import LIMIT_STEPS, SanitizerCheck, need_sanitizer_on
from gdnbench.profilers.sanitizer.command import PROGRAM, SanitizerTool
from gdnbench.ready.candidate import Candidate
from gdnbench.ready.check import ReadyCheck, failed, passed, unchecked
from gdnbench.wording import plural

NUMBERS = "numbers"
SANITIZER = "sanitizer"


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
    unable = {case: kernels[case.variant.kernel].kernel.unable(case.workload) for case in verification.cases}
    cases = [case for case, reason in unable.items() if not reason]
    if not cases:
        told = f"it can do no workload of {VERIFY_SUITE}: {next(iter(unable.values()))}"
        return unchecked(NUMBERS, told, verify_words(candidate), ExitCode.PARTIAL)
    wrong = [case for case in cases if verification.checked[case.id].status.is_failure]
    if wrong:
        more = f" (and at {plural(len(wrong) - 1, 'more workload')})" if len(wrong) > 1 else ""
        told = f"{_told(verification, wrong[0])}, at {wrong[0].workload}{more}; {_where(verification)}"
        return failed(NUMBERS, told, repeat_words(wrong[0], verification.seed), verification.exit_code)
    command = verify_words(candidate)
    left_out = [case for case in cases if verification.checked[case.id].status is not Status.OK]
    if left_out:
        told = verification.checked[left_out[0].id].reason
        code = verification.exit_code or ExitCode.PARTIAL
        return unchecked(
            NUMBERS, f"not verified at {len(left_out)} of {plural(len(cases), 'workload')}: {told}", command, code
        )
    workloads = f"{plural(len(cases), 'workload')}, {plural(len(candidate.op.scenarios), 'kind')} of inputs"
    told = f"right at {workloads}; {_where(verification)}"
    if refused := [reason for reason in unable.values() if reason]:
        told += f"; it cannot do {len(refused)} more: {refused[0]}"
    return passed(NUMBERS, told, command)


def check_memory(candidate: Candidate, verification: Verification) -> ReadyCheck:
    """Runs every tool of compute-sanitizer, as `gdnbench verify --sanitize` does.

    Raises MachineError without a GPU or compute-sanitizer, ProfilerError if the sanitizer cannot be started.
    """
    terms = candidate.terms
    sanitizer = need_sanitizer_on(terms.gpu_asked)
    assert terms.gpu
    limit_s = terms.step_limit_s * LIMIT_STEPS
    check = SanitizerCheck(candidate.catalog, sanitizer, terms.gpu, limit_s, terms.observer)
    # The numbers are another check: here a case fails only for what a tool finds, or cannot find out.
    afresh = {case_id: replace(found, gates=()) for case_id, found in verification.checked.items()}
    found = check.add_to(replace(verification, checked=afresh))
    command = sanitize_words(candidate)
    cases = [case for case in found.cases if case.id in found.sanitized]
    if not cases:
        notes = [note for case in found.cases for note in found.checked[case.id].notes if note.startswith(PROGRAM)]
        told = notes[0] if notes else f"no case can be launched under {PROGRAM}"
        return unchecked(SANITIZER, told, command, ExitCode.PARTIAL)
    for case in cases:
        verdict = found.checked[case.id]
        unsafe = any(not gate.passed for gate in verdict.gates)
        if unsafe or (verdict.status is not Status.OK and afresh[case.id].status is Status.OK):
            shown = (*repeat_words(case, found.seed), "--sanitize")
            return failed(SANITIZER, f"{_told(found, case)}, at {case.workload}", shown, verdict.status.exit_code)
    told = f"nothing found at {cases[0].workload} by {_tools(found, cases, answered=True)}"
    if silent := _tools(found, cases, answered=False):
        told += f"; {silent} gave no answer"
    if bad := next((status for case in cases if (status := found.checked[case.id].status) is not Status.OK), None):
        return unchecked(SANITIZER, f"{told}: the kernel is {bad}", command, ExitCode.PARTIAL)
    return passed(SANITIZER, told, command)


def _tools(found: Verification, cases: Sequence[Case], *, answered: bool) -> str:
    gates = [{gate.gate for gate in found.checked[case.id].gates} for case in cases]
    return ", ".join(tool for tool in SanitizerTool if all(f"{PROGRAM} {tool}" in each for each in gates) is answered)


def verify_words(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command that verifies the candidate."""
    return ("gdnbench", "verify", candidate.label)


def sanitize_words(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command that runs the candidate under compute-sanitizer."""
    return (*verify_words(candidate), "--sanitize")


def _told(verification: Verification, case: Case) -> str:
    verdict = verification.checked[case.id]
    return f"{verdict.status}: {verdict.reason}"


def _where(verification: Verification) -> str:
    """Describes what ran the candidate: `on NVIDIA H200, seed 7`, or an interpreter `without a GPU`."""
    if verification.interpreted:
        told = f"in {' and '.join(dict.fromkeys(verification.interpreted.values()))}, without a GPU"
    else:
        told = f"on {verification.device}"
    return f"{told}, seed {verification.seed}"
