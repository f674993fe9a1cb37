"""Detects kernels that replace functions by which they are judged, or leave threads behind.

A kernel called through Python runs in the process that verifies and times it, and could make every gate pass, or every
clock slow. The objects under these names and the functions' code are compared, before kernels are imported and after
each step. Code in the same process can find and replace this comparison, too.

Names the threads that a kernel leaves behind, which may work while others are verified or timed.

Python reports which function each of its threads runs. Other threads and streams have no known owner, since torch and
the driver start some, too; work on another stream is missing from a replay.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
import timeit
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType, ModuleType

import torch

_OWN = "gdnbench."
# Of other modules only what the harness calls, since libraries replace functions, too, as torch.compile does with
# torch.manual_seed.
_NAMES: Mapping[ModuleType, tuple[str, ...]] = {
    builtins: (
        "abs", "all", "any", "callable", "float", "getattr", "int", "isinstance", "len", "map", "max", "min", "round",
        "sorted", "sum", "zip",
    ),
    time: ("monotonic", "perf_counter", "perf_counter_ns", "sleep", "time", "time_ns"),
    os: ("write",),
    json: ("dumps", "loads"),
    torch: (
        "Tensor", "as_tensor", "cat", "empty", "empty_like", "equal", "full", "isfinite", "isnan", "stack", "tensor",
        "where", "zeros",
    ),
    torch.cuda: ("CUDAGraph", "Event", "Stream", "current_device", "current_stream", "graph", "stream", "synchronize"),
    timeit: ("Timer", "default_timer"),
}  # fmt: skip
_CLASSES: tuple[type, ...] = (
    torch.Tensor, torch.cuda.Event, torch.cuda.Stream, torch.cuda.CUDAGraph, timeit.Timer,
)  # fmt: skip
MOST_NAMED = 3


@dataclass(frozen=True)
class _Held:
    """A name, its object, and the object's code if it is a Python function."""

    name: str
    namespace: Mapping[str, object]
    key: str
    value: object
    code: object

    @property
    def is_untouched(self) -> bool:
        return self.namespace.get(self.key) is self.value and _code(self.value) is self.code


class FunctionSnapshot:
    """The functions by which kernels are judged, as they are at construction, before any kernel is imported."""

    def __init__(self) -> None:
        classes = (*_own_classes(), *_CLASSES)
        self._held = tuple(_functions(classes))
        self._keys = {each: frozenset(vars(each)) for each in classes}

    def replaced(self) -> tuple[str, ...]:
        """Names whose object or code has changed, and new names in a class that hide inherited ones."""
        changed = [held.name for held in self._held if not held.is_untouched]
        hiding = [
            f"{_name(each)}.{key}"
            for each, keys in self._keys.items()
            if len(vars(each)) > len(keys)
            for key in vars(each).keys() - keys
            if callable(vars(each)[key]) and any(key in vars(base) for base in each.__mro__[1:])
        ]
        return (*changed, *hiding)


def told(names: tuple[str, ...]) -> str:
    """Describes in a line what was replaced."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"it replaces functions that it is judged with: {', '.join(names[:MOST_NAMED])}{more}"


def _own_modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(_OWN) and isinstance(module, ModuleType)]


def _own_classes() -> set[type]:
    found = (value for module in _own_modules() for value in vars(module).values())
    return {value for value in found if isinstance(value, type) and value.__module__.startswith(_OWN)}


def _functions(classes: Iterable[type]) -> Iterator[_Held]:
    for module in _own_modules():
        yield from _of_namespace(module.__name__, vars(module))
    for module, names in _NAMES.items():
        yield from (held for held in _of_namespace(module.__name__, vars(module)) if held.key in names)
    for each in classes:
        yield from _of_namespace(_name(each), vars(each))


def _name(each: type) -> str:
    return f"{each.__module__}.{each.__qualname__}"


def _of_namespace(name: str, namespace: Mapping[str, object]) -> Iterator[_Held]:
    for key, value in list(namespace.items()):
        if callable(value) or isinstance(value, property | staticmethod | classmethod):
            yield _Held(f"{name}.{key}", namespace, key, value, _code(value))


def _code(value: object) -> object:
    return value.__code__ if isinstance(value, FunctionType) else None


class ThreadWatch:
    """Compares Python's threads, in functions of a kernel's folder, with those at construction, before its import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._before = frozenset(sys._current_frames())

    def notes(self) -> tuple[str, ...]:
        """A line for each new thread that runs a function of the kernel's files."""
        new = (frame for ident, frame in sys._current_frames().items() if ident not in self._before)
        return tuple(f"a thread is left behind, which runs {where}" for where in map(self._outermost, new) if where)

    def _outermost(self, frame: FrameType) -> str:
        """A thread's outermost function in the kernel's files, with file and line; empty if there is none."""
        found = ""
        at: FrameType | None = frame
        while at:
            code = at.f_code
            if Path(code.co_filename).resolve().is_relative_to(self._folder):
                found = f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
            at = at.f_back
        return found
