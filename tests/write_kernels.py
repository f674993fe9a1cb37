"""Kernels that tests write: of their own, or copies with a mistake put in."""

from __future__ import annotations

from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry


def on_torch(name: str, more: str = "") -> str:
    """A declaration of a kernel on torch; `more`: arguments, each after a comma."""
    return f"from gdnbench import Param, Requirement, Shape, TorchKernel\nkernel = TorchKernel(name={name!r}{more})\n"


def write_kernel(folder: Path, declaration: str, source: str = "") -> Path:
    """Writes a kernel's declaration and source into a new folder, and gives that."""
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text(declaration)
    (folder / ("kernel.cu" if "CudaKernel" in declaration else "kernel.py")).write_text(source)
    return folder


def write_changed(entry: CatalogEntry, name: str, root: Path, *changes: tuple[str, str]) -> Path:
    """Writes a kernel of another name, with texts replaced in its source or the files that it includes.

    Args:
        entry: the kernel that is copied.
        name: the copy's, which its presets begin with, too.
        root: the folder of kernels that it goes into.
        changes: what is replaced, which one of its files must have, and by what; one after the other.
    """
    files = {name: path.read_text() for name, path in (*entry.included(), (entry.source.name, entry.source))}
    for right, wrong in changes:
        assert any(right in text for text in files.values())
        files = {name: text.replace(right, wrong) for name, text in files.items()}
    declared = (entry.folder / "variant.py").read_text().replace(entry.kernel.name, name)
    folder = write_kernel(root / entry.op.name / name.removeprefix(f"{entry.op.name}-"), declared)
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True, parents=True)
        (folder / file).write_text(text)
    return folder
