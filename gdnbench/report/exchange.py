"""Prints what was exported and imported: the files, notes, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from gdnbench.render.console import data_console, message_console, print_json

if TYPE_CHECKING:
    from gdnbench.exchange.export import Written
    from gdnbench.exchange.importing import Imported


def print_exported(written: Written, to: Path, *, json: bool, quiet: bool) -> None:
    """Prints the files of a data set."""
    _print_notes(written.notes, quiet=quiet)
    if json:
        print_json({"folder": to, "files": written.files, "notes": written.notes})
        return
    _print_lines([str(to / name) for name in written.files], [f"flashinfer-bench run --local {quote(str(to))}"])


def print_imported(imported: Imported, *, json: bool, quiet: bool) -> None:
    """Prints what was made of imported files."""
    _print_notes(imported.notes, quiet=quiet)
    if json:
        told = {"ops": imported.ops, "kernels": imported.kernels, "published": imported.published}
        print_json({**told, "folders": imported.folders, "notes": imported.notes})
        return
    _print_lines(list(map(str, imported.folders)), imported.next_steps)


def _print_notes(notes: Sequence[str], *, quiet: bool) -> None:
    console = message_console(quiet=quiet)
    for note in notes:
        console.print(f"note: {note}", markup=False)


def _print_lines(lines: Sequence[str], steps: Sequence[str]) -> None:
    console = data_console()
    for line in [*lines, "", *(f"next: {step}" for step in steps)]:
        console.print(line, markup=False, soft_wrap=True)  # whole lines, to be copied
