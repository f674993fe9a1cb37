"""A finding of `gdnbench lint`, a mistake by one rule at one place, and the comments that silence one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

SourceLanguage = Literal["triton", "cuda"]


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


@dataclass(frozen=True)
class LintRule:
    """A kind of mistake.

    Attributes:
        code: `T1` and so on for Triton, `C1` and so on for CUDA.
        name: in a few words, with hyphens.
        bug: what it finds, in one sentence.
        remedy: what to do about it, in one sentence.
        check: yields each place in a source, a `TritonSubject` or `CudaSubject`, and a sentence on what is wrong there.
    """

    code: str
    name: str
    language: SourceLanguage
    bug: str
    remedy: str
    check: Callable[[Any], Iterator[tuple[SourcePlace, str]]]


_COMMENT = re.compile(r"(?:#|//)\s*gdnbench:\s*ignore\[\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*\][ \t]*(.*)")


def apply_comments(text: str, findings: list[LintFinding]) -> tuple[list[LintFinding], int]:
    """Returns the findings of a file that no comment silences, and the number silenced; a comment needs a reason."""
    lines = text.splitlines()
    kept: list[LintFinding] = []
    for finding in findings:
        found = _COMMENT.search(lines[finding.place.line - 1])
        if found is None or finding.code not in re.split(r"\s*,\s*", found[1]):
            kept.append(finding)
        elif not re.search(r"\w", found[2]):
            kept.append(replace(finding, remedy=f"say why behind ignore[{found[1]}]: without a reason it does nothing"))
    return kept, len(findings) - len(kept)
