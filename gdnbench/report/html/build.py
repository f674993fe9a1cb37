"""From stored runs to a file on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.report.output_file import check_output_file, write_output_file

NEEDED = ("jinja2", "vl_convert")
SUFFIXES = (".html", ".htm")


@dataclass(frozen=True)
class Written:
    """A report on disk.

    Attributes:
        path: where it is.
        size_bytes: how large.
        warnings: profiles that could not be read, and are not in it.
    """

    path: Path
    size_bytes: int
    warnings: tuple[str, ...] = ()


def check_output(path: Path) -> None:
    """Refuses what could not be written, before anything is read for it.

    Raises:
        UsageError: for a name that is none of a report, a folder that does not exist, or what is no regular file.
        MachineError: for a folder or a file that cannot be written, or without the libraries that draw.
    """
    check_output_file(path, "--output", SUFFIXES, "report.html")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MachineError(f"a report needs {', '.join(missing)}", "pip install 'gdnbench[report]'")


def write_report(runs: Sequence[Path], published: Sequence[Path], output: Path, *, profiles: Path) -> Written:
    """Reads runs and published figures, and writes the report in one step.

    Args:
        runs: folders of runs, in the order wanted.
        published: folders of published figures.
        output: the file to write; one that is there is replaced.
        profiles: where profilers wrote what they read.

    Raises:
        RunFormatError: naming the file that cannot be read; the output is left as it was.
        MachineError: if the output cannot be written; it is left as it was, too.
    """
    from gdnbench.report.html.counters import find_profiled
    from gdnbench.report.html.page import page_of
    from gdnbench.report.html.published import load_figures
    from gdnbench.report.html.render import render
    from gdnbench.report.html.stored import read_stored

    stored = [read_stored(folder) for folder in runs]
    figures = [load_figures(folder) for folder in published]
    profiled = find_profiled(profiles, stored)
    text = render(page_of(stored, figures, profiled)).encode()
    write_output_file(output, text)
    return Written(output, len(text), tuple(profiled.warnings))
