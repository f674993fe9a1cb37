"""Chooses the source line of an instruction: inlined code has its own line and one of each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdnbench.codegen.nvdisasm import SourceLine

Frames = Mapping[int, Sequence[SourceLine]]  # by address; the innermost line first, then its callers'


def main_file(frames: Frames) -> str:
    """Returns the file with the most distinct lines; empty if none is known.

    Its lines distinguish most instructions: of a kernel that only calls a header's function, the header; of one that
    loads through a helper, the file with the calls of the helper.
    """
    lines = {own for one in frames.values() for own in _innermost(one).values()}
    counts = Counter(sorted(line.file for line in lines))  # sorted, so that ties are deterministic
    return counts.most_common(1)[0][0] if counts else ""


def choose_lines(frames: Frames, main: str) -> dict[int, SourceLine]:
    """Returns by address the innermost line in the main file, else the innermost of all."""
    return {address: _innermost(one).get(main, one[0]) for address, one in frames.items()}


def _innermost(frames: Sequence[SourceLine]) -> dict[str, SourceLine]:
    """Returns the innermost line in each file."""
    return {line.file: line for line in reversed(frames)}


def file_name(line: SourceLine) -> str:
    """Returns the line's file name, without folders."""
    return Path(line.file).name
