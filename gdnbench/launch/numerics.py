"""Loads an op's numerics: its inputs and its oracle."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from torch import Tensor

from gdnbench.catalog.declaration import SourceLoader
from gdnbench.errors import DeclarationError, GdnbenchError, tell_raised
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload


class Numerics(Protocol):
    """What an op's numerics file defines."""

    def make_inputs(
        self, workload: Workload, seed: int, device: str, scenario: str
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Draws the input tensors and scalars of a scenario."""

    def oracle(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> dict[str, Tensor]:
        """The outputs in float64."""

    def roundoff(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> dict[str, Tensor]:
        """What arithmetic may make of rounding errors: see `RoundoffGate`, and only where the op has one."""


def load_numerics(op: Op, op_folder: Path) -> Numerics:
    """Loads the op's numerics file, once per process.

    Raises:
        DeclarationError: if it lacks `make_inputs` or `oracle`.
    """
    module = load_file(op_folder / op.numerics)
    for name in ("make_inputs", "oracle"):
        if not callable(getattr(module, name, None)):
            raise DeclarationError(f"{op_folder / op.numerics} must define {name}()")
    return cast(Numerics, module)


def ask(op: Op, numerics: Numerics, name: str, *arguments: object, **more: object) -> Any:
    """What a function of an op's numerics gives.

    Args:
        op: the op.
        numerics: its numerics.
        name: the function's.
        arguments: its arguments.
        more: those by name.

    Raises:
        DeclarationError: for what it raises, which is no kernel's fault.
    """
    try:
        return getattr(numerics, name)(*arguments, **more)
    except GdnbenchError:
        raise
    except Exception as error:
        told = tell_raised(error, Path(getattr(numerics, "__file__", None) or os.devnull).parent)
        raise DeclarationError(f"{name}() in {op.numerics} of {op.name} fails: {told}") from error


def check_named(op: Op, name: str, given: object, wanted: Iterable[str]) -> None:
    """Makes sure that a function of an op's numerics gives these tensors, by name.

    Raises:
        DeclarationError: if not; it says what was expected.
    """
    wanted = list(wanted)
    told, expected = f"{name}() in {op.numerics} of {op.name}", f"it must give tensors by name: {', '.join(wanted)}"
    if not isinstance(given, Mapping):
        kind = type(given).__name__ + (f" of {len(given)}" if isinstance(given, tuple | list) else "")
        raise DeclarationError(f"{told} gives {'None' if given is None else f'a {kind}'}; {expected}")
    if missing := [each for each in wanted if each not in given]:
        raise DeclarationError(
            f"{told} gives {', '.join(map(str, given)) or 'nothing'}, and no {missing[0]}; {expected}"
        )
    for each in wanted:
        if not isinstance(given[each], Tensor):
            raise DeclarationError(f"{told}: {each} is a {type(given[each]).__name__}, not a tensor; {expected}")


@cache
def load_file(path: Path) -> ModuleType:
    """Runs a Python file as a module of its own, once per process.

    Raises:
        DeclarationError: if there is no such file. Whatever the file raises passes through.
    """
    name = "gdnbench_" + "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceLoader(name, str(path)))
    if spec is None or spec.loader is None or path.suffix != ".py" or not path.is_file():
        raise DeclarationError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up there
    spec.loader.exec_module(module)
    return module
