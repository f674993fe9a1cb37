"""Loads an op's numerics, its inputs and its oracle, and the inputs that a user captured."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import torch
from safetensors.torch import load
from torch import Tensor

from gdnbench.catalog.declaration import SourceLoader
from gdnbench.errors import DeclarationError, GdnbenchError, MachineError, tell_raised
from gdnbench.model.declaration import TensorSpec
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


def call_numerics(op: Op, numerics: Numerics, name: str, *arguments: object, **more: object) -> Any:
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


def load_captured(path: Path, sha256: str, device: str) -> dict[str, torch.Tensor]:
    """The tensors of a file, by name.

    Args:
        path: the file.
        sha256: of its content, when the run began.
        device: where they are wanted.

    Raises:
        MachineError: if the file is gone, or is another one now.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MachineError(f"{path} cannot be read any more: {error.strerror or error}", "measure anew") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise MachineError(f"{path} has changed since it was checked", "measure anew")
    return {name: tensor.to(device) for name, tensor in load(content).items()}


def rearranged(op: Op, tensors: Mapping[str, torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    """The same numbers in another order that is as likely as their own.

    Along an axis whose members are alike, as heads are, all tensors are permuted in the same way: each head keeps its
    decays, and they belong to another head. A tensor without such an axis is shifted as a whole. Tensors of integers,
    lengths and indices, stay as they are.

    Args:
        op: which says by `alike` along which axes.
        tensors: its inputs, by name.
        seed: of the permutations; none of them leaves all in place, where there are two members or more.
    """
    random = torch.Generator().manual_seed(seed)
    sizes = {
        dim: tensors[spec.name].shape[at] for spec in op.inputs for at, dim in enumerate(spec.dims) if dim in op.alike
    }
    orders: dict[str | int, torch.Tensor] = {
        axis: _order(sizes[axis], random) for axis in op.alike if sizes.get(axis, 1) > 1
    }
    return {spec.name: _rearranged(spec, tensors[spec.name], orders, random) for spec in op.inputs}


def _order(count: int, random: torch.Generator) -> torch.Tensor:
    order = torch.randperm(count, generator=random)
    return order.roll(1) if torch.equal(order, torch.arange(count)) else order


def _rearranged(
    spec: TensorSpec, tensor: torch.Tensor, orders: Mapping[str | int, torch.Tensor], random: torch.Generator
) -> torch.Tensor:
    shift = 1 + int(torch.randint(max(1, tensor.numel() - 1), (1,), generator=random))
    if not tensor.is_floating_point():
        return tensor
    # PyTorch reorders no float8
    bits = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
    along = [(at, orders[dim]) for at, dim in enumerate(spec.dims) if dim in orders]
    for at, order in along:
        bits = bits.index_select(at, order.to(tensor.device))
    if not along:
        bits = bits.flatten().roll(shift).reshape(tensor.shape)
    return bits.view(tensor.dtype)
