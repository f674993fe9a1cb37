"""Runs the checks in order, whether or not earlier ones passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import Broken, label_parts
from gdnbench.catalog.select import find_broken, find_variant, resolve_op
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.measure.preflight import Verification
from gdnbench.ready import checks, stored
from gdnbench.ready.check import Candidate, Readiness, ReadyCheck, Terms, choose_suite, failed, unchecked

_NOT_HERE = {ExitCode.ENVIRONMENT, ExitCode.PROFILER}


def check_kernel(catalog: Catalog, op: str, name: str, terms: Terms) -> Readiness:
    """Checks one kernel: a kernel or a preset, params after colons; an empty op is that of the kernel.

    Raises UsageError for an unknown kernel, suite or architecture.
    """
    known, _ = label_parts(name)
    broken = find_broken(catalog, known)
    if broken and catalog.owner(known) is None:
        return _of_broken(name, broken, terms)
    found = find_op(catalog, resolve_op(catalog, op, [name]))
    _, variant = find_variant(catalog, found.name, name)
    candidate = Candidate(catalog, found, variant.label, choose_suite(found, terms.suite), terms)
    return Readiness(candidate.label, found.name, candidate.suite.name, tuple(_checks(candidate)))


def _checks(candidate: Candidate) -> list[ReadyCheck]:
    verified: list[Verification] = []

    def check_numbers() -> ReadyCheck:
        verified.append(checks.verify_candidate(candidate))
        return checks.judge_numbers(candidate, verified[0])

    def check_memory() -> ReadyCheck:
        if not verified:
            told = "it was not verified, and nothing that may not run is launched"
            return unchecked(checks.SANITIZER, told, checks.verify_words(candidate), ExitCode.PARTIAL)
        return checks.check_memory(candidate, verified[0])

    return [
        _attempt(checks.SOURCE, checks.lint_words(candidate.label), lambda: checks.check_source(candidate)),
        _attempt(checks.BUILD, checks.inspect_words(candidate, ()), lambda: checks.check_build(candidate)),
        _attempt(checks.NUMBERS, checks.verify_words(candidate), check_numbers),
        _attempt(checks.SANITIZER, checks.sanitize_words(candidate), check_memory),
        _attempt(stored.NAME, stored.run_words(candidate), lambda: stored.check_run(candidate)),
    ]


def _attempt(name: str, command: Sequence[str], check: Callable[[], ReadyCheck]) -> ReadyCheck:
    """Returns a check, or what kept it from an answer; a usage error is raised."""
    try:
        return check()
    except GdnbenchError as error:
        if error.exit_code is ExitCode.USAGE:
            raise
        told = error.message.strip().partition("\n")[0].rstrip(".")
        return (unchecked if error.exit_code in _NOT_HERE else failed)(name, told, command, error.exit_code)


def _of_broken(name: str, broken: Broken, terms: Terms) -> Readiness:
    first = checks.tell_broken(broken)
    rest = [
        unchecked(each, "not looked at: it does not load", first.command, first.code)
        for each in (checks.BUILD, checks.NUMBERS, checks.SANITIZER, stored.NAME)
    ]
    return Readiness(name, broken.name.partition("/")[0], terms.suite, (first, *rest))
