"""Copies of kernels with a mistake put in."""

from __future__ import annotations

from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry


def write_changed(entry: CatalogEntry, name: str, change: tuple[str, str], root: Path) -> None:
    """Writes a kernel of another name, with one text replaced in its source or the headers that it includes.

    Args:
        entry: the kernel that is copied.
        name: the copy's, which its presets begin with, too.
        change: what is replaced, which one of its files must have, and by what.
        root: the folder of kernels that it goes into.
    """
    right, wrong = change
    files = {name: path.read_text() for name, path in (*entry.headers(), (entry.source.name, entry.source))}
    assert any(right in text for text in files.values())
    folder = root / entry.op.name / name.removeprefix(f"{entry.op.name}-")
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text.replace(right, wrong))
    declared = (entry.folder / "variant.py").read_text().replace(entry.kernel.name, name)
    (folder / "variant.py").write_text(declared)
