"""The tensors of one op at one shape: inputs that must not change, outputs that must be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import torch

from gdnbench.launch.numerics import Numerics
from gdnbench.model import Dtype, Op, Shape

TORCH_DTYPES: dict[Dtype, torch.dtype] = {"bf16": torch.bfloat16, "fp32": torch.float32}

# A quiet NaN with a payload that no arithmetic produces: an element with these bits was never written, while a
# NaN with other bits was computed. GPUs produce 0x7fff… and CPUs 0x7fc0….
_POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.bfloat16: (torch.int16, 0x7FC5),
    torch.float32: (torch.int32, 0x7FC5A5A5),
}


@dataclass(frozen=True)
class Workspace:
    """Inputs, scalars and preallocated outputs of an op at a shape, on one device.

    Attributes:
        inputs: read-only tensors by name.
        scalars: fp32 scalars by name.
        outputs: tensors to be written, by name.
        pristine: the inputs as they were drawn: a kernel may change them, and the next one needs them as they were.
    """

    op: Op
    shape: Shape
    inputs: dict[str, torch.Tensor]
    scalars: dict[str, float]
    outputs: dict[str, torch.Tensor]
    pristine: dict[str, torch.Tensor]

    @classmethod
    def make(cls, op: Op, numerics: Numerics, shape: Shape, *, seed: int, device: str, scenario: str) -> Workspace:
        """Draws the inputs of a scenario and allocates poisoned outputs."""
        inputs, scalars = numerics.make_inputs(shape, seed, device, scenario)
        outputs = {
            spec.name: torch.empty(spec.sizes(shape), dtype=TORCH_DTYPES[spec.dtype], device=device)
            for spec in op.outputs
        }
        pristine = {name: tensor.clone() for name, tensor in inputs.items()}
        workspace = cls(op, shape, inputs, scalars, outputs, pristine)
        poison(tuple(outputs.values()))
        return workspace

    def copy(self) -> Workspace:
        """The same tensors elsewhere in memory."""
        inputs = {name: tensor.clone() for name, tensor in self.inputs.items()}
        outputs = {name: tensor.clone() for name, tensor in self.outputs.items()}
        return replace(self, inputs=inputs, outputs=outputs)

    @property
    def namespace(self) -> SimpleNamespace:
        """Everything by name, for a torch kernel's `bind`."""
        return SimpleNamespace(**self.inputs, **self.scalars, **self.outputs)

    @property
    def output_tensors(self) -> tuple[torch.Tensor, ...]:
        """The outputs in the op's order."""
        return tuple(self.outputs[spec.name] for spec in self.op.outputs)

    def restore(self) -> None:
        """Gives the inputs their values again."""
        for name, tensor in self.pristine.items():
            self.inputs[name].copy_(tensor)

    def begin(self, in_place: Mapping[str, str]) -> None:
        """Gives the outputs that a kernel updates in place, named with their inputs, the values it starts from."""
        self._begin(self.outputs, in_place)

    def reset(self, outputs: Sequence[torch.Tensor], in_place: Mapping[str, str]) -> None:
        """Poisons what a launch is to write, in the op's order, except what it updates in place: see `begin`."""
        poison(outputs)
        names = (spec.name for spec in self.op.outputs)
        self._begin(dict(zip(names, outputs, strict=True)), in_place)

    def reset_all(self, in_place: Mapping[str, str]) -> None:
        """Resets the outputs, and poisons memory that the allocator is likely to hand to a kernel for its own."""
        self.reset(self.output_tensors, in_place)
        poison([torch.empty_like(tensor) for tensor in self.output_tensors])

    def _begin(self, outputs: Mapping[str, torch.Tensor], in_place: Mapping[str, str]) -> None:
        for name, source in in_place.items():
            outputs[name].copy_(self.pristine[source])


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fills tensors with a NaN that tells "never written" from "computed as NaN"."""
    for tensor in tensors:
        bits, pattern = _POISON[tensor.dtype]
        tensor.view(bits).fill_(pattern)


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements were never written, as a boolean tensor."""
    bits, pattern = _POISON[tensor.dtype]
    return tensor.contiguous().view(bits) == pattern
