"""The tensors of one op at one workload: inputs that must not change, outputs that must be written.

Outputs hold poison before a launch, a value that marks elements never written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, NoReturn

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import Numerics, call_numerics, check_named
from gdnbench.model.case import STRIDE
from gdnbench.model.declaration import FACTS, Dtype, ParamValue, TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

TORCH_DTYPES: dict[Dtype, torch.dtype] = {name: getattr(torch, facts.torch) for name, facts in FACTS.items()}

# A quiet NaN with a payload that no arithmetic produces: an element with these bits was never written, while a
# NaN with other bits was computed. GPUs produce 0x7fff… and CPUs 0x7fc0…. An e4m3 number has one NaN; what is no
# float has none, and gets a value that is unlikely.
_POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.bfloat16: (torch.int16, 0x7FC5),
    torch.float16: (torch.int16, 0x7EC5),
    torch.float32: (torch.int32, 0x7FC5A5A5),
    torch.float64: (torch.int64, 0x7FF8A5A5A5A5A5A5),
    torch.float8_e4m3fn: (torch.uint8, 0x7F),
    torch.uint8: (torch.uint8, 0xA5),
    torch.int8: (torch.int8, -0x5B),
    torch.int32: (torch.int32, -0x5A5A5A5B),
    torch.int64: (torch.int64, -0x5A5A5A5A5A5A5A5B),
    torch.bool: (torch.uint8, 0xA5),
}

_ALIGNMENT = 16  # bytes: the widest load that a thread has
PADDING = 64  # elements, a multiple of that in every type

NO_PARAMS: Mapping[str, ParamValue] = MappingProxyType({})

TensorSize = tuple[str, tuple[int, ...], Dtype]
"""A tensor's name, sizes and element type."""


@dataclass(frozen=True)
class Workspace:
    """Inputs, fp32 scalars and preallocated outputs of an op at a workload, by name, on one device.

    `pristine` are the inputs as they were drawn: a kernel may change them, and the next one needs them as they were.
    Kernels that ask for the same `scratch` between their launches share it.
    """

    op: Op
    workload: Workload
    inputs: dict[str, torch.Tensor]
    scalars: dict[str, float]
    outputs: dict[str, torch.Tensor]
    pristine: dict[str, torch.Tensor]
    scratch: dict[TensorSize, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def make(
        cls, op: Op, numerics: Numerics, workload: Workload, *, seed: int, device: str, scenario: str
    ) -> Workspace:
        """Draws the inputs of a scenario and allocates poisoned outputs; `op` becomes the op at this workload."""
        inputs, scalars = _pair_of(op, call_numerics(op, numerics, "make_inputs", workload, seed, device, scenario))
        return cls.holding(op, workload, inputs, scalars, device=device)

    @classmethod
    def holding(
        cls, op: Op, workload: Workload, inputs: dict[str, torch.Tensor], scalars: dict[str, float], *, device: str
    ) -> Workspace:
        """Makes a workspace as `make`, with inputs that were drawn before."""
        op = op.at(workload.axes)
        _check_inputs(op, workload, inputs, scalars)
        inputs = {name: _plainly_laid(tensor) for name, tensor in inputs.items()}
        named = op.named_sizes(workload)
        outputs = {
            spec.name: torch.empty(spec.sizes(named), dtype=TORCH_DTYPES[spec.settled], device=device)
            for spec in op.outputs
        }
        pristine = {name: tensor.clone() for name, tensor in inputs.items()}
        workspace = cls(op, workload, inputs, scalars, outputs, pristine)
        poison(tuple(outputs.values()))
        return workspace

    def copy(self) -> Workspace:
        """Copies all tensors but the scratch."""
        inputs = {name: tensor.clone() for name, tensor in self.inputs.items()}
        outputs = {name: tensor.clone() for name, tensor in self.outputs.items()}
        return replace(self, inputs=inputs, outputs=outputs, scratch={})

    def apart(self, names: Collection[str]) -> Workspace:
        """Copies all tensors; some so that their members lie apart: see `lay_apart`."""
        copied = self.copy()
        for tensors in (copied.inputs, copied.outputs):
            tensors.update({name: lay_apart(each) for name, each in tensors.items() if name in names})
        return copied

    def add_scratch(self, specs: Sequence[TensorSpec], params: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Returns scratch tensors by name, new ones poisoned; their sizes may name params, those that are numbers."""
        named = {**self.op.named_sizes(self.workload), **params}
        device = next(iter(self.inputs.values())).device
        tensors = {}
        for spec in specs:
            key = (spec.name, spec.sizes(named), spec.dtype_at(named))
            if key not in self.scratch:
                self.scratch[key] = torch.empty(key[1], dtype=TORCH_DTYPES[key[2]], device=device)
                poison([self.scratch[key]])
            tensors[spec.name] = self.scratch[key]
        return tensors

    def by_name(
        self, scratch: Sequence[TensorSpec] = (), params: Mapping[str, ParamValue] = NO_PARAMS
    ) -> dict[str, Any]:
        """Returns all arguments of launches: params, scratch, axes and derived sizes, scalars, tensors, strides."""
        numbers = {name: value for name, value in params.items() if isinstance(value, int)}
        own = {**params, **self.add_scratch(scratch, numbers), **self.op.named_sizes(self.workload)}
        tensors = {**self.inputs, **self.outputs}
        strides = {f"{name}{STRIDE}": each.stride(0) for name, each in tensors.items() if each.dim()}
        return {**strides, **own, **self.scalars, **tensors}

    @property
    def namespace(self) -> SimpleNamespace:
        """Everything by name, for a torch kernel's `bind`."""
        return _Named(**self.inputs, **self.scalars, **self.outputs)

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
        """Resets outputs; poisons scratch, and memory that the allocator is likely to hand to a kernel for its own."""
        self.reset(self.output_tensors, in_place)
        poison(tuple(self.scratch.values()))
        poison([torch.empty_like(tensor) for tensor in self.output_tensors])

    def _begin(self, outputs: Mapping[str, torch.Tensor], in_place: Mapping[str, str]) -> None:
        for name, source in in_place.items():
            outputs[name].copy_(self.pristine[source])


class _Named(SimpleNamespace):
    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no {name}; expected: {', '.join(vars(self))}")


def _pair_of(op: Op, drawn: object) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Returns the tensors and the scalars that `make_inputs` gives; what else it gives is no kernel's fault."""
    if not (isinstance(drawn, tuple | list) and len(drawn) == 2 and all(isinstance(each, Mapping) for each in drawn)):
        rule = f"make_inputs() in {op.numerics} of {op.name} must give two values, tensors and scalars, each by name"
        raise DeclarationError(f"{rule}; an op without scalars gives `tensors, {{}}`")
    inputs, scalars = drawn
    check_named(op, "make_inputs", inputs, (spec.name for spec in op.inputs))
    return dict(inputs), dict(scalars)


def _check_inputs(op: Op, workload: Workload, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]) -> None:
    """Raises DeclarationError unless inputs are what the op declares: kernels are compiled for that."""
    named = op.named_sizes(workload)
    wanted = {spec.name: (spec.sizes(named), TORCH_DTYPES[spec.settled]) for spec in op.inputs}
    drawn = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in inputs.items()}
    if drawn.keys() != wanted.keys() or set(scalars) != set(op.scalars):
        expected = ", ".join([*wanted, *op.scalars])
        raise DeclarationError(f"make_inputs of {op.name} gives {', '.join([*drawn, *scalars])}, not {expected}")
    for name, (sizes, dtype) in wanted.items():
        if drawn[name] != (sizes, dtype):
            raise DeclarationError(f"make_inputs of {op.name}: {name} is {drawn[name]}, not {(sizes, dtype)}")


def _plainly_laid(tensor: torch.Tensor) -> torch.Tensor:
    """Copies a part of another tensor, so that kernels may read it by whole vectors from its address."""
    return tensor if tensor.is_contiguous() and tensor.data_ptr() % _ALIGNMENT == 0 else tensor.contiguous().clone()


def lay_apart(tensor: torch.Tensor) -> torch.Tensor:
    """Copies a tensor into a larger one, whose rest holds poison: `PADDING` elements behind each member of axis 0."""
    members, size = len(tensor), tensor[:1].numel()
    room = tensor.new_empty(members, size + PADDING)
    poison([room])
    return room[:, :size].view(tensor.shape).copy_(tensor)


def padding_of(tensor: torch.Tensor) -> torch.Tensor:
    """What lies behind each member of a tensor that was laid apart, [members, PADDING]; nothing of another tensor."""
    if tensor.is_contiguous():
        return tensor.new_empty(0, PADDING)
    size = tensor[:1].numel()
    return tensor.as_strided((len(tensor), PADDING), (tensor.stride(0), 1), tensor.storage_offset() + size)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All elements from a tensor's first one to its last, and what lies behind that: a view of one axis."""
    between = 0 if tensor.is_contiguous() else PADDING * len(tensor)
    return tensor.as_strided((tensor.numel() + between,), (1,))


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fills tensors with the value that marks "never written"."""
    for tensor in tensors:
        bits, pattern = _POISON[tensor.dtype]
        tensor.view(bits).fill_(pattern)


def poison_bytes(dtype: torch.dtype) -> int:
    """Returns eight bytes of `poison`, as a signed integer, the first byte lowest."""
    bits, pattern = _POISON[dtype]
    element = pattern.to_bytes(bits.itemsize, "little", signed=pattern < 0)
    return int.from_bytes(element * (8 // bits.itemsize), "little", signed=True)


def is_poison(tensor: torch.Tensor, expected: torch.Tensor | None = None) -> torch.Tensor:
    """Returns which elements were never written, as a boolean tensor.

    In a type without a NaN, an element that is `expected` to hold the poison's value counts as written.
    """
    bits, pattern = _POISON[tensor.dtype]
    unwritten = tensor.contiguous().view(bits) == pattern
    if expected is None or tensor.dtype.is_floating_point or tensor.dtype is torch.bool:
        return unwritten
    return unwritten & (expected != pattern)
