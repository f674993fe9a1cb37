"""Checks whether a kernel builds for every architecture, could be launched there, and obeys the rules."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.catalog.select import find_variant
from gdnbench.errors import ExitCode, UsageError
from gdnbench.inspection.compiled import CompiledKernel, FailedBuild, build_subjects
from gdnbench.inspection.quantities import exit_code, find_violations
from gdnbench.inspection.subject import Subject, choose_archs, choose_subjects, fitting_archs, gpu_size_of
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.ready.candidate import Candidate
from gdnbench.ready.check import ReadyCheck, failed, passed, unchecked
from gdnbench.wording import plural

NAME = "build"


def check_build(candidate: Candidate) -> ReadyCheck:
    """Builds every launch at every workload of the suite, because params and code may depend on the workload.

    Raises UsageError for an unknown architecture, GdnbenchError for what is not the kernel's fault, such as a missing
    tool.
    """
    terms, label = candidate.terms, candidate.label
    archs = choose_archs(terms.archs, ())
    try:
        subjects, _ = choose_subjects(candidate.catalog, candidate.op.name, [label], candidate.suite.workloads)
    except UsageError as error:
        return unchecked(NAME, error.message, _elsewhere(candidate), ExitCode.PARTIAL)
    archs = archs if terms.archs else _fitting(archs, subjects)
    found = build_subjects(subjects, archs, lambda arch: gpu_size_of(arch, ()), terms.observer)
    command = inspect_words(candidate, archs)
    if failures := [outcome for outcome in found if isinstance(outcome, FailedBuild)]:
        first = failures[0]
        told = _told(f"{first.subject.title} {first.subject.workload} {first.arch}: {first.error.message}", failures)
        return failed(NAME, told, (*command, *first.subject.workload.options), ExitCode.BUILD)
    if refused := [outcome for outcome in found if isinstance(outcome, CompiledKernel) and outcome.refused]:
        first_refused = refused[0]
        told = f"{first_refused.subject.title} {first_refused.subject.workload} {first_refused.arch}"
        shown = (*command, *first_refused.subject.workload.options)
        return failed(NAME, _told(f"{told}: {first_refused.refused}", refused), shown, exit_code(found, ()))
    if broken := find_violations(found, terms.rules):
        shown = (*command, *broken[0].compiled.subject.workload.options)
        return failed(NAME, _told(str(broken[0]), broken), shown, exit_code(found, broken))
    rules = f"; {', '.join(rule.text for rule in terms.rules)}: none" if terms.rules else ""
    workloads = plural(len({subject.workload for subject in subjects}), "workload")
    return passed(NAME, f"builds for {' and '.join(archs)} at {workloads}{rules}", command)


def _elsewhere(candidate: Candidate) -> tuple[str, ...]:
    """Returns the command if nothing can be built: a suite whose workloads the kernel can all do, or its listing."""
    kernel = find_variant(candidate.catalog, candidate.op.name, candidate.label)[0].kernel
    for name in candidate.op.suites if isinstance(kernel, CudaKernel | TritonKernel) else ():
        if not any(map(kernel.unable, candidate.op.suite(name).workloads)):
            return ("gdnbench", "ready", candidate.label, "--suite", name)
    return ("gdnbench", "list", candidate.label)


def inspect_words(candidate: Candidate, archs: Sequence[str]) -> tuple[str, ...]:
    """Returns the command that shows the builds."""
    rules = ",".join(rule.text for rule in candidate.terms.rules)
    return (
        *("gdnbench", "inspect", candidate.label),
        *(("--arch", ",".join(archs)) if archs else ()),
        *(("--fail-on", rules) if rules else ()),
    )


def _fitting(archs: Sequence[str], subjects: Sequence[Subject]) -> tuple[str, ...]:
    """Returns the usual architectures whose instructions the kernel has; if there are none, its own target."""
    if any(all(one.entry.kernel.fits(arch) for one in subjects) for arch in archs):
        return fitting_archs(archs, subjects)[0]
    kernels = [one.entry.kernel for one in subjects]
    own = [each.target.rstrip("af") or each.since for each in kernels if isinstance(each, CudaKernel)]
    return tuple(dict.fromkeys(filter(None, own)))


def _told(first: str, among: Sequence[object]) -> str:
    """Returns the first line of the first of several failures, and the number of others."""
    line = first.strip().partition("\n")[0]
    return f"{line} (and {len(among) - 1} more)" if len(among) > 1 else line
