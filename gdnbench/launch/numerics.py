"""Loads an op's numerics, its inputs and its oracle, and the inputs that a user captured."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import torch
from safetensors.torch import load
from torch import Tensor

from gdnbench.catalog.declaration import load_source
from gdnbench.errors import DeclarationError, GdnbenchError, MachineError, tell_raised
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.sequences import Stretch


class Numerics(Protocol):
    """What an op's numerics file defines.

    `oracle` gives the outputs in float64; `roundoff`, if the op has a `RoundoffGate`, what arithmetic may make of
    rounding errors.
    """

    def make_inputs(
        self, workload: Workload, seed: int, device: str, scenario: str
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Draws the input tensors and scalars of a scenario."""

    def oracle(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> dict[str, Tensor]: ...  # noqa: D102
    def roundoff(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> dict[str, Tensor]: ...  # noqa: D102


class SequenceNumerics(Numerics, Protocol):
    """What numerics define besides, so that calls of their op can be followed along sequences."""

    def draw_tokens(self, shape: Workload, stretch: Stretch, fixed: dict[str, Tensor]) -> dict[str, Tensor]:
        """Draws the inputs of a stretch of one sequence, [tokens, ...]; `fixed` are inputs of a call."""

    def ready(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> dict[str, Tensor]:
        """What `advance` takes, float64 [sequences, tokens, ...], from what was drawn of tokens and other inputs."""

    def advance(self, token: dict[str, Tensor], state: Tensor) -> Tensor:
        """Takes a token of each sequence; updates [..., sequences, ...] states in place, and gives the outputs."""


def load_sequence_numerics(op: Op, op_folder: Path) -> SequenceNumerics:
    """Loads numerics as `load_numerics`; raises DeclarationError, too, if they lack a function of sequences."""
    numerics = load_numerics(op, op_folder)
    for name in ("draw_tokens", "ready", "advance"):
        if not callable(getattr(numerics, name, None)):
            message = f"{op.name} cannot be followed along sequences: {op_folder / op.numerics} defines no {name}()"
            raise DeclarationError(message, "`gdnbench verify` without --length and --sequences checks its calls")
    return cast(SequenceNumerics, numerics)


def load_numerics(op: Op, op_folder: Path) -> Numerics:
    """Loads the op's numerics, once per process; raises DeclarationError if it fails, or lacks one of two functions."""
    try:
        module = load_file(op_folder / op.numerics)
    except Exception as error:  # whatever the file raises
        raise DeclarationError(f"{op.numerics} of {op.name} does not load: {tell_raised(error, op_folder)}") from error
    for name in ("make_inputs", "oracle"):
        if not callable(getattr(module, name, None)):
            raise DeclarationError(f"{op_folder / op.numerics} must define {name}()")
    return cast(Numerics, module)


def call_numerics(op: Op, numerics: Numerics, name: str, *arguments: object, **more: object) -> Any:
    """Calls a function of an op's numerics; raises DeclarationError for what it raises: the kernel is not at fault."""
    try:
        return getattr(numerics, name)(*arguments, **more)
    except GdnbenchError:
        raise
    except Exception as error:
        reason = tell_raised(error, Path(getattr(numerics, "__file__", None) or os.devnull).parent)
        raise DeclarationError(f"{name}() in {op.numerics} of {op.name} fails: {reason}") from error


def check_named(op: Op, name: str, result: object, wanted: Iterable[str]) -> None:
    """Raises DeclarationError unless a function of an op's numerics gives these tensors, by name."""
    wanted = list(wanted)
    where, expected = f"{name}() in {op.numerics} of {op.name}", f"it must give tensors by name: {', '.join(wanted)}"
    if not isinstance(result, Mapping):
        kind = type(result).__name__ + (f" of {len(result)}" if isinstance(result, tuple | list) else "")
        raise DeclarationError(f"{where} gives {'None' if result is None else f'a {kind}'}; {expected}")
    if missing := [each for each in wanted if each not in result]:
        names = ", ".join(map(str, result)) or "nothing"
        raise DeclarationError(f"{where} gives {names}, and no {missing[0]}; {expected}")
    for each in wanted:
        if not isinstance(result[each], Tensor):
            raise DeclarationError(f"{where}: {each} is a {type(result[each]).__name__}, not a tensor; {expected}")


@cache
def load_file(path: Path, folders: tuple[Path, ...] = ()) -> ModuleType:
    """Runs a Python file as `load_source`, once per process; DeclarationError without one, else what it raises."""
    name = "gdnbench_" + "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    if path.suffix != ".py" or not path.is_file():
        raise DeclarationError(f"{path} is not a Python file")
    return load_source(name, path, folders)


def load_captured(path: Path, sha256: str, device: str) -> dict[str, torch.Tensor]:
    """Returns a file's tensors by name; raises MachineError unless its SHA-256 is that of when the run began."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MachineError(f"{path} cannot be read any more: {error.strerror or error}", "measure anew") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise MachineError(f"{path} has changed since it was checked", "measure anew")
    return {name: tensor.to(device) for name, tensor in load(content).items()}


def rearranged(op: Op, tensors: Mapping[str, torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    """Returns an op's inputs with the same numbers in another order that is as likely as their own.

    Along an axis whose members are `alike`, as heads are, all tensors are permuted in the same way: each head keeps its
    decays, and they belong to another head. No permutation of two members or more leaves all in place. A tensor without
    such an axis is shifted as a whole. Tensors of integers, lengths and indices, stay as they are.
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
