"""Copies of kernels with a mistake put in."""

from __future__ import annotations

from pathlib import Path

from gdnbench.catalog.entry import Entry


def write_changed(entry: Entry, name: str, change: tuple[str, str], root: Path) -> None:
    """Writes a kernel of another name, whose source has one text in the place of another.

    Args:
        entry: the kernel that is copied.
        name: the copy's, which its presets begin with, too.
        change: what is replaced, which the source must have, and by what.
        root: the folder of kernels that it goes into.
    """
    right, wrong = change
    source = entry.source.read_text()
    assert right in source
    folder = root / entry.op.name / name.removeprefix(f"{entry.op.name}-")
    folder.mkdir(parents=True)
    (folder / entry.source.name).write_text(source.replace(right, wrong))
    declared = (entry.folder / "variant.py").read_text().replace(entry.kernel.name, name)
    (folder / "variant.py").write_text(declared)
