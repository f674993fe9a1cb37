"""The input of the rules for CUDA: a source with the launches of one variant, and its functions' attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import BuildError
from gdnbench.lint.cuda_evaluate import constant_value
from gdnbench.lint.cuda_source import CudaSource, closing, macros_of, read_cuda
from gdnbench.lint.finding import SourcePlace
from gdnbench.lint.settings import LaunchSetting, settings_of
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
    """Yields the kernel's source, then each header that it includes, without the compiler's; raises BuildError."""
    paths = (entry.source, *(path for _, path in entry.headers()))
    texts = {path: read_source(path) for path in paths}
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


def _with_prefix(entry: CatalogEntry, setting: LaunchSetting) -> LaunchSetting:
    """Renames axes to their macros' names."""
    axes = {axis.name for axis in entry.op.workloads.axes}
    prefix = entry.op.macro_prefix
    named = {f"{prefix}{name}" if name in axes else name: value for name, value in setting.constants.items()}
    return replace(setting, constants=named)


_BETWEEN = re.compile(r"[;}]|^\s*#[^\n]*", re.MULTILINE)  # the end of the code before a function


@dataclass(frozen=True)
class KernelHead:
    """The text from the end of the code before a function to its name, as offsets of `__global__` and of the name."""

    source: CudaSource
    begin: int
    end: int

    @property
    def place(self) -> SourcePlace:
        """The place of the function's name."""
        return place_of(self.source, self.end)

    def attribute(self, name: str) -> tuple[int, tuple[str, ...]] | None:
        """Returns the offset of an attribute in the file, and its arguments, or None if the function lacks it."""
        found = re.compile(rf"\b{name}\s*\(").search(self.source.text, self.begin, self.end)
        if found is None:
            return None
        inside = self.source.text[found.end() : closing(self.source.text, found.end() - 1) - 1]
        return found.start(), tuple(_split(inside))


def find_heads(source: CudaSource, entry: str) -> Iterator[KernelHead]:
    """Yields the heads of a file's `__global__` functions of a name; there are several if `#if` chooses one."""
    name = entry.partition("<")[0].strip().rpartition("::")[2]
    for found in re.finditer(rf"\b{re.escape(name)}\s*\(", source.text):
        ends = [end.end() for end in _BETWEEN.finditer(source.text, 0, found.start())]
        begin = source.text.find("__global__", ends[-1] if ends else 0, found.start())
        if begin >= 0:
            yield KernelHead(source, begin, found.start())


def numbers_of(subject: CudaSubject, arguments: tuple[str, ...], setting: LaunchSetting) -> tuple[int | None, ...]:
    """Returns the values of an attribute's arguments at a setting, None for each unknown one."""
    return tuple(constant_value(subject.source, subject.headers, each, setting) for each in arguments)


def place_of(source: CudaSource, at: int) -> SourcePlace:
    """Returns the place of a character offset in the file."""
    before = source.text[:at]
    return SourcePlace(source.path, before.count("\n") + 1, at - before.rfind("\n"))


def _split(text: str) -> list[str]:
    """Splits a call's arguments at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
