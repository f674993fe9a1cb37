"""A finding of `gdnbench lint`, a mistake by one rule at one place, and the comments that silence one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A place in a source; line and column, in characters, from 1."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class LintFinding:
    """A mistake, by the rule's code `T1`, in the kernel in which it was found first."""

    place: SourcePlace
    code: str
    message: str
    remedy: str
    kernel: str


Places = Iterator[tuple[SourcePlace, str]]
"""Places in a source, each with a sentence on what is wrong there."""


@dataclass(frozen=True)
class LintRule:
    """A kind of mistake, by a code that begins with T for Triton, with C for CUDA; `remedy` says what to do."""

    code: str
    remedy: str
    check: Callable[[Any], Places]  # of a `TritonSubject` or `CudaSubject`


def lint_rule(code: str, *, remedy: str) -> Callable[[Callable[[Any], Places]], LintRule]:
    """Makes a rule of the function that checks it."""
    return lambda check: LintRule(code, remedy, check)


_COMMENT = re.compile(r"(?:#|//)\s*gdnbench:\s*ignore\[\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*\][ \t]*(.*)")


def apply_comments(text: str, findings: list[LintFinding]) -> list[LintFinding]:
    """Returns the findings of a file that no comment silences; a comment needs a reason."""
    lines = text.splitlines()
    remaining: list[LintFinding] = []
    for finding in findings:
        comment = _COMMENT.search(lines[finding.place.line - 1])
        if comment is None or finding.code not in re.split(r"\s*,\s*", comment[1]):
            remaining.append(finding)
        elif not re.search(r"\w", comment[2]):
            remedy = f"say why behind ignore[{comment[1]}]: without a reason it does nothing"
            remaining.append(replace(finding, remedy=remedy))
    return remaining
