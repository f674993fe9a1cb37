"""Functions as they are named on the command line: `mine.py::fast`, `mine.cu::kernel`, `torch.nn.functional::silu`.

A name for tables may stand before one: `mine=mine.py::fast`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.origin import is_file

_MARK = "::"
_FILES = (".py", ".cu")
_LABELLED = re.compile(r"([A-Za-z0-9][\w.+-]*)=(.+)")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_HOW = "write FILE.py::NAME, MODULE::NAME or FILE.cu::NAME"


@dataclass(frozen=True)
class FunctionName:
    """A function: `place` is the absolute path of a file, or a module's name; `label` is its name in tables."""

    place: str
    function: str
    label: str

    @property
    def is_cuda(self) -> bool:
        """Whether it is a kernel of a CUDA C++ file."""
        return self.place.endswith(".cu")

    @property
    def stem(self) -> str:
        """The name of its file or module: `mine` of `/home/me/mine.py`, `functional` of `torch.nn.functional`."""
        return Path(self.place).stem if self.place.endswith(_FILES) else self.place.rpartition(".")[2]

    @property
    def title(self) -> str:
        """As it is typed, without the folder: `mine.py::fast`."""
        return f"{Path(self.place).name}{_MARK}{self.function}"


def names_functions(words: Iterable[str]) -> bool:
    """Whether what was typed as kernels, or a stored command, names functions."""
    return any(_MARK in word for word in words)


def parse_functions(texts: Iterable[str]) -> tuple[FunctionName, ...]:
    """Reads functions, each once; UnknownNameError for a file that is not there, UsageError for two of one label."""
    named: dict[str, FunctionName] = {}
    for each in map(_parse, texts):
        if named.setdefault(each.label, each) != each:
            raise UsageError(f"two functions are called {each.label}", f"name one: new={each.title}")
    return tuple(named.values())


def _parse(text: str) -> FunctionName:
    labelled = _LABELLED.fullmatch(text.strip())
    label, typed = labelled.groups() if labelled else ("", text.strip())
    place, mark, function = typed.rpartition(_MARK)
    if not (mark and _NAME.fullmatch(function) and (place.endswith(_FILES) or _NAME.fullmatch(place))):
        raise UsageError(f"{text} names no function", f"{_HOW}; kernels of an op are measured without functions")
    if place.endswith(_FILES):
        if not is_file(Path(place)):
            raise UnknownNameError(f"there is no file {place}", _HOW)
        place = str(Path(place).resolve())
    return FunctionName(place, function, label or function.strip("_") or "function")
