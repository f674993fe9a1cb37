"""Runs the Python files of ops and kernels, from their source, and checks the types of declared fields.

Python's compiled copies beside them are not used: one that was cut off would keep the file broken, and one of before an
edit within the same second that left the size alone would stand in for the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePath
from types import CodeType, ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gdnbench.errors import DeclarationError, raised_at


class _SourceLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(Path(path).read_bytes(), path)
        return code


def load_source(name: str, path: Path, folders: Sequence[Path] = ()) -> ModuleType:
    """Runs a Python file as the module `name`, from its source alone; raises whatever it raises.

    It may import files beside it, `from .parts import tile`, and in `folders`: the module is that of a package.
    """
    for part in [each for each in sys.modules if each.startswith(f"{name}.")]:
        del sys.modules[part]  # is run anew, too
    loader, places = _SourceLoader(name, str(path)), [str(each) for each in (path.parent, *folders)]
    spec = spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up by name
    spec.loader.exec_module(module)
    return module


def run_declaration(path: Path, content: bytes) -> ModuleType:
    """Runs the content of a declaration, `op.py` or `variant.py`, and returns its module; raises whatever it raises.

    Its standard output is our standard error, since ours is for data; its standard input is empty, since reading would
    wait for a person who does not know.
    """
    name = f"gdnbench_catalog_{path.parent.parent.name}_{path.parent.name}_{path.stem}".replace("-", "_")
    module = ModuleType(name)
    module.__file__ = str(path)
    with redirect_stdout(sys.stderr), _empty_stdin():
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def place_of(error: BaseException, path: Path) -> str:
    """File and line of the failure in the declaration itself, not in what it called."""
    at = raised_at(error, path)
    return f"{path.name}:{at[1]}" if at else path.name


@contextmanager
def _empty_stdin() -> Iterator[None]:
    before = sys.stdin
    with Path(os.devnull).open(encoding="utf-8") as empty:
        sys.stdin = empty
        try:
            yield
        finally:
            sys.stdin = before


_Check = Callable[[Any, str], bool]
"""Whether a value is of a type; the text is the field, for messages about declarations in the value."""

_SHOWN = 60  # characters of a value


def check_fields(declared: Any, where: str = "") -> None:
    """Raises DeclarationError for the first field of a dataclass, or of the dataclasses in it, that is not of its type.

    A list may stand for a tuple, a whole number for a number; a string is not a tuple, though it has elements. `where`
    is the field that holds the dataclass.
    """
    for name, default, hint, check in _checks(declared.__class__):
        value = getattr(declared, name)
        place = f"{where}.{name}" if where else name
        if value is not default and not check(value, place):
            text = repr(value)
            text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            raise DeclarationError(f"{place}: {text}, expected {_type_name(hint)}")


def check_inside(path: str, what: str, below: int = 0) -> None:
    """Raises DeclarationError for the path of a file outside the op's folder, or of no file; `what` is its field.

    `path` is relative to the declaration's folder, which lies `below` levels within the op's: 1 for a kernel's, which
    may share a source with others.
    """
    parts = PurePath(os.path.normpath(path)).parts
    if PurePath(path).is_absolute() or parts.count("..") > below:
        raise DeclarationError(f"{what}: {path} lies outside of the op's folder; give a file in it")
    if not PurePath(path).name:
        raise DeclarationError(f"{what}: {path!r} names the folder itself; give a file in it")


@cache
def _checks(kind: type) -> tuple[tuple[str, Any, Any, _Check], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, field.default, hints[field.name], _check_of(hints[field.name])) for field in fields(kind))


@cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        either = tuple(map(_check_of, arguments))
        return lambda value, place: any(check(value, place) for check in either)
    if origin is Literal:
        return lambda value, _: isinstance(value, str) and value in arguments
    if origin is tuple:
        return _check_of_tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        key, item = map(_check_of, arguments)
        return lambda value, place: (
            isinstance(value, Mapping) and all(key(name, place) and item(each, place) for name, each in value.items())
        )
    return (lambda value, _: callable(value)) if origin is Callable else _check_of_class(hint)


def _check_of_tuple(arguments: tuple[Any, ...]) -> _Check:
    if arguments[1:] == (...,):
        each = _check_of(arguments[0])
        return lambda value, place: isinstance(value, tuple | list) and all(each(one, place) for one in value)
    checks = tuple(map(_check_of, arguments))
    return lambda value, place: (
        isinstance(value, tuple | list)
        and len(value) == len(checks)
        and all(check(one, place) for check, one in zip(checks, value, strict=True))
    )


def _check_of_class(kind: Any) -> _Check:
    if kind is Any:
        return lambda _value, _place: True
    if kind in (int, float):  # a truth value is an int to Python
        numbers = (int, float) if kind is float else (int,)
        return lambda value, _: isinstance(value, numbers) and not isinstance(value, bool)
    if kind in (str, bool, NoneType):  # of which no dataclass is made
        return lambda value, _: isinstance(value, kind)

    def check(value: Any, place: str) -> bool:
        fits = isinstance(value, kind)
        if fits and is_dataclass(value):
            check_fields(value, place)
        return fits

    return check


def _type_name(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_type_name, arguments)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is tuple:
        return f"tuple of {' and '.join(dict.fromkeys(_type_name(each) for each in arguments if each is not ...))}"
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping from {_type_name(arguments[0])} to {_type_name(arguments[1])}"
    plain = {str: "text", int: "whole number", float: "number", bool: "truth value", NoneType: "None"}
    return "function" if origin is Callable else str(plain.get(hint) or getattr(hint, "__name__", hint))
