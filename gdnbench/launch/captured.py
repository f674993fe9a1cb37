"""Captured inputs in a worker: a file's tensors, and a second draw with as many heads of each kind as the file has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load

from gdnbench.errors import MachineError
from gdnbench.model.op import Op
from gdnbench.model.tensor import TensorSpec


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
