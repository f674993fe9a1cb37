"""Checks whether a kernel loads, and whether its source shows a known mistake."""

from __future__ import annotations

from gdnbench.catalog.entry import Broken
from gdnbench.errors import ExitCode
from gdnbench.lint.check import lint_kernels
from gdnbench.lint.rules import RULES
from gdnbench.ready.candidate import Candidate
from gdnbench.ready.check import ReadyCheck, failed, passed
from gdnbench.wording import plural

NAME = "source"


def check_source(candidate: Candidate) -> ReadyCheck:
    """Applies every lint rule to every file of the kernel.

    Raises BuildError for an unreadable source, MachineError if the machine lacks a tool for a rule that needs a build.
    """
    result = lint_kernels(candidate.catalog, [candidate.op.name], candidate.label, RULES)
    files = plural(len(result.files), "file")
    silenced = f"; {result.silenced} silenced by a comment" if result.silenced else ""
    command = lint_words(candidate.label)
    if not result.findings:
        return passed(NAME, f"it loads; no findings in {files}{silenced}", command)
    first = result.findings[0]
    more = f" (and {len(result.findings) - 1} more)" if len(result.findings) > 1 else ""
    told = f"{first.place.path.name}:{first.place.line}: {first.code} {first.message}{more}{silenced}"
    return failed(NAME, told, command, result.exit_code)


def tell_broken(broken: Broken) -> ReadyCheck:
    """Makes the check of a kernel whose folder does not load."""
    return failed(NAME, f"it does not load: {broken.reason}", ("gdnbench", "list"), ExitCode.BUILD)


def lint_words(label: str) -> tuple[str, ...]:
    """Returns the command that shows the findings."""
    return ("gdnbench", "lint", label)
