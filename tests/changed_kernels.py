"""Copies of kernels with a mistake put in."""

from __future__ import annotations

from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry


def write_changed(entry: CatalogEntry, name: str, change: tuple[str, str], root: Path) -> None:
    """Writes a kernel of another name, whose source, or a header beside it, has one text in the place of another.

    Args:
        entry: the kernel that is copied.
        name: the copy's, which its presets begin with, too.
        change: what is replaced, which one of its files must have, and by what.
        root: the folder of kernels that it goes into.
    """
    right, wrong = change
    headers = (header for folder in (entry.folder.parent, entry.folder) for header in folder.glob("*.cuh"))
    files = {path.name: path.read_text() for path in (*headers, entry.source)}
    assert any(right in text for text in files.values())
    folder = root / entry.op.name / name.removeprefix(f"{entry.op.name}-")
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text.replace(right, wrong))
    declared = (entry.folder / "variant.py").read_text().replace(entry.kernel.name, name)
    (folder / "variant.py").write_text(declared)
