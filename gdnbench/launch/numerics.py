"""Loads an op's numerics: its inputs and its oracle."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from torch import Tensor

from gdnbench.catalog.declaration import SourceLoader
from gdnbench.errors import DeclarationError
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
