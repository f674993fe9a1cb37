"""Finds the source line that a finding is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gdnbench.codegen.nvdisasm import read_source_lines
from gdnbench.errors import GdnbenchError
from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspection.source_lines import choose_lines, main_file
from gdnbench.places import is_file

Place = tuple[Path, int]
_NAMED = re.compile(r"(?P<path>/[^\s:]+|[\w./-]+\.\w+):(?P<line>\d+)")


def place_in_text(text: str, folder: Path = Path()) -> Place | None:
    """Returns the first existing file and line, relative to `folder`, that a text names: `kernel.cu:6: error: …`."""
    for found in _NAMED.finditer(text):
        path = folder / found["path"]
        if is_file(path):
            return path, int(found["line"])
    return None


def place_in_code(builds: Sequence[BuildOutcome]) -> Place | None:
    """Returns the line of the first load issued after a wait, else of the first load, or None if no build has lines."""
    for build in builds:
        if isinstance(build, CompiledKernel) and (place := _place_of_load(build)):
            return place
    return None


def _place_of_load(build: CompiledKernel) -> Place | None:
    loads = (*build.milestones.late_loads, *build.milestones.early_loads)
    try:
        frames = read_source_lines(Path(build.build.cubin), build.build.symbol)
    except GdnbenchError:
        return None
    lines = choose_lines(frames, main_file(frames))
    for load in loads:
        line = lines.get(int(load.instruction.address, 16))
        if line is None:
            continue
        folder = build.subject.entry.folder
        for path in (Path(line.file), folder / Path(line.file).name, folder.parent / Path(line.file).name):
            if is_file(path):
                return path, line.line
    return None
