"""A CUDA source with the launches of one variant: the input of the rules for CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import BuildError
from gdnbench.lint.cuda_source import CudaSource, included, macros_of, read_cuda
from gdnbench.lint.launch_setting import LaunchSetting
from gdnbench.lint.settings import settings_of
from gdnbench.model.case import Variant
from gdnbench.model.kernel import CudaKernel
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular_text


@dataclass(frozen=True)
class CudaSubject:
    """A source, the settings of each launched function, and the headers beside it, whose constants it uses."""

    source: CudaSource
    settings: dict[str, tuple[LaunchSetting, ...]]
    label: str
    entry: CatalogEntry
    variant: Variant
    headers: tuple[CudaSource, ...] = ()


def read_cuda_subjects(entry: CatalogEntry, variant: Variant) -> Iterator[CudaSubject]:
    """Yields the kernel's source, then each header that it includes of its or its op's folder; raises BuildError."""
    texts: dict[Path, str] = {}
    _collect(entry.source, (entry.folder, entry.op_folder), texts)
    macros: dict[str, str] = {}
    for text in texts.values():
        macros |= macros_of(text)
    own, *headers = (read_cuda(path, text, macros) for path, text in texts.items())
    launches = entry.kernel.launches if isinstance(entry.kernel, CudaKernel) else ()
    settings = {
        launch.entry: tuple(_with_prefix(entry, setting) for setting in settings_of(entry, variant, launch))
        for launch in launches
    }
    yield CudaSubject(own, settings, variant.label, entry, variant, tuple(headers))
    for header in headers:
        yield CudaSubject(header, {}, variant.label, entry, variant)


def read_source(path: Path) -> str:
    """Returns a source's text; raises BuildError if it cannot be read."""
    try:
        return read_regular_text(path, MOST_SOURCE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path} cannot be read: {error}", "see `source` in variant.py") from error


def _collect(path: Path, folders: tuple[Path, ...], texts: dict[Path, str]) -> None:
    """Reads a file and, once each, the files that it includes."""
    texts[path] = read_source(path)
    for name in included(texts[path]):
        found = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if found is not None and found not in texts:
            _collect(found, folders, texts)


def _with_prefix(entry: CatalogEntry, setting: LaunchSetting) -> LaunchSetting:
    """Renames axes to their macros' names."""
    axes = {axis.name for axis in entry.op.workloads.axes}
    prefix = entry.op.macro_prefix
    named = {f"{prefix}{name}" if name in axes else name: value for name, value in setting.constants.items()}
    return replace(setting, constants=named)
