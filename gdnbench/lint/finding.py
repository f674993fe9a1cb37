"""A finding of `gdnbench lint`: a mistake of one rule at one place of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SourceLanguage = Literal["triton", "cuda"]


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A place in a source.

    Attributes:
        path: the file.
        line: from 1.
        column: from 1, in characters.
    """

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class LintFinding:
    """A mistake.

    Attributes:
        place: where it is.
        code: the rule's code, `T1`.
        message: what is wrong there, in one sentence.
        remedy: what to do, in one sentence.
        kernel: the label of the kernel in which it was found first.
    """

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
        language: of the sources that it reads.
        bug: what it finds, in one sentence.
        remedy: what to do about it, in one sentence.
        check: gives each place in a source, of the language's own class, with a sentence on what is wrong there.
    """

    code: str
    name: str
    language: SourceLanguage
    bug: str
    remedy: str
    check: Callable[[Any], Iterator[tuple[SourcePlace, str]]]
