"""From stored runs to a file on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gdnbench.errors import MachineError, UsageError

NEEDED = ("jinja2", "vl_convert")


@dataclass(frozen=True)
class Written:
    """A report on disk: where it is, and how large."""

    path: Path
    size_bytes: int


def check_output(path: Path) -> None:
    """Refuses what could not be written, before anything is read for it.

    Raises:
        UsageError: for a folder, or a file in a folder that does not exist.
        MachineError: without the libraries that draw.
    """
    if path.is_dir():
        raise UsageError(f"--output {path} is a folder", f"name a file in it: --output {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--output {path}: there is no folder {path.parent}", "make it first")
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
        MachineError: if the output cannot be written.
    """
    from gdnbench.report.html.page import page_of
    from gdnbench.report.html.published import load_figures
    from gdnbench.report.html.render import render
    from gdnbench.report.html.stored import read_stored

    stored = [read_stored(folder) for folder in runs]
    figures = [load_figures(folder) for folder in published]
    text = render(page_of(stored, figures, profiles)).encode()
    temporary = output.with_name(f".{output.name}.new")
    try:
        temporary.write_bytes(text)
        temporary.replace(output)
    except OSError as error:
        raise MachineError(f"cannot write {output}: {error}", "choose another file with --output") from error
    return Written(output, len(text))
