"""Which of an instruction's source lines is told: code that is inlined has its own and one of each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdnbench.codegen.nvdisasm import SourceLine

Frames = Mapping[int, Sequence[SourceLine]]  # by address; the innermost line first, then those of the calls


def main_file(frames: Frames) -> str:
    """The file whose lines tell most instructions apart: that with most lines in it; empty if none is known.

    A kernel whose file only calls a header's function is told by the header, and one that loads through a helper by
    the lines that call the helper.
    """
    lines = {own for one in frames.values() for own in _innermost(one).values()}
    counts = Counter(sorted(line.file for line in lines))  # sorted, so that of two alike it is always the same one
    return counts.most_common(1)[0][0] if counts else ""


def choose_lines(frames: Frames, main: str) -> dict[int, SourceLine]:
    """The innermost line in the main file, else the innermost of all, by address."""
    return {address: _innermost(one).get(main, one[0]) for address, one in frames.items()}


def _innermost(frames: Sequence[SourceLine]) -> dict[str, SourceLine]:
    """The innermost line in each file."""
    return {line.file: line for line in reversed(frames)}


def file_name(line: SourceLine) -> str:
    """Its file's name, without folders."""
    return Path(line.file).name
