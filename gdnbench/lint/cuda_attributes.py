"""Reads the attributes in the head of a `__global__` function: `__launch_bounds__(128, 2)`, `__cluster_dims__(4)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.lint.cuda_evaluate import constant_value
from gdnbench.lint.cuda_source import CudaSource, closing
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import SourcePlace
from gdnbench.lint.launch_setting import LaunchSetting

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
