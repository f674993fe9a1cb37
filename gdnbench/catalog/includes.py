"""Which headers a CUDA source includes: for its hash, for lint, for export and for the ledger."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gdnbench.origin import bundled_kernels, is_file
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular

HEADERS = Path(__file__).parents[1] / "include"
"""Headers that gdnbench brings to kernels: `#include <gdnbench/phases.cuh>`."""

PHASES = "gdnbench/phases.cuh"
"""The header whose marks are empty in a build that is timed."""

_DIRECTIVE = re.compile(rb'^[ \t]*#[ \t]*include\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|\w)', re.MULTILINE)


def include_path(folder: Path, op_folder: Path) -> tuple[Path, ...]:
    """Returns the folders where a kernel's includes are looked for, in order, without those of CUDA.

    They are the kernel's, its op's, `include/` beside the folders of ops, the bundled one last, and gdnbench's own.
    """
    roots = (folder.parent.parent, op_folder.parent, bundled_kernels())
    return tuple(dict.fromkeys((folder, op_folder, *(root / "include" for root in roots), HEADERS)))


def included_headers(source: Path, folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """Returns the headers that a source includes, through headers or itself, each with the name that includes it.

    They are in the order of the text, each before those that it includes. Both sides of an `#if` count, and for an
    include that is a macro every header in the folders. Names that are not found are the compiler's headers.
    """
    found: dict[Path, tuple[str, Path]] = {}
    waiting = _includes_in(source, folders)[::-1]
    while waiting:
        name, path = waiting.pop()
        if (itself := path.resolve()) not in found and itself != source.resolve():
            found[itself] = name, path
            waiting += _includes_in(path, folders)[::-1]
    return list(found.values())


def _includes_in(source: Path, folders: Sequence[Path]) -> list[tuple[str, Path]]:
    try:
        text = read_regular(source, MOST_SOURCE_BYTES)
    except OSError:  # whoever reads its text will say so
        return []
    included: list[tuple[str, Path]] = []
    for quoted, angled in _DIRECTIVE.findall(text):
        if name := os.fsdecode(quoted or angled):
            paths = (folder / name for folder in ([source.parent] if quoted else []) + [*folders])
            included += [(name, path) for path in paths if is_file(path)][:1]
        else:
            included += _all_headers(folders)
    return included


def _all_headers(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".cuh", ".h", ".hpp"} and path.is_file():
                yield path.relative_to(folder).as_posix(), path
