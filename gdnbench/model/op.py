"""An op: a computation with a fixed tensor contract, and the gates that its kernels must pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from gdnbench.errors import UnknownNameError
from gdnbench.model.name import check_name
from gdnbench.model.shape import Shape
from gdnbench.model.suite import Suite

Dtype = Literal["bf16", "fp32"]
DTYPE_BYTES: Mapping[Dtype, int] = {"bf16": 2, "fp32": 4}


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of an op's contract.

    Attributes:
        name: its name in every signature.
        dims: sizes, an axis's name (`"B"`) or a number.
        dtype: element type.
    """

    name: str
    dims: tuple[str | int, ...]
    dtype: Dtype

    def sizes(self, shape: Shape) -> tuple[int, ...]:
        """The tensor's sizes at a shape."""
        axes = shape.axes()
        return tuple(axes[dim] if isinstance(dim, str) else dim for dim in self.dims)

    def nbytes(self, shape: Shape) -> int:
        """The tensor's size in bytes at a shape."""
        return prod(self.sizes(shape)) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class UlpGate:
    """Every element within `ulps` units in the last place of bf16, plus `atol`, of the oracle.

    Where the oracle's root mean square exceeds 1, `atol` counts in units of it: an output near zero is then what is
    left of terms that cancel, and an honest fp32 sum has lost digits that no order of summation can save.
    """

    tensor: str
    ulps: float
    atol: float


@dataclass(frozen=True)
class RmsGate:
    """Root mean square of the error, relative to that of the oracle, at most `limit`."""

    tensor: str
    limit: float


@dataclass(frozen=True, kw_only=True)
class Op:
    """A computation with a fixed tensor contract.

    Attributes:
        name: the op's name and its folder's, `decode`.
        title: what it computes, in a line.
        inputs: read-only tensors, in the order of every CUDA and Triton argument list.
        scalars: fp32 scalars that follow the inputs, by name.
        outputs: written tensors, which follow the scalars; separate from the inputs.
        numerics: file beside `op.py` with `make_inputs` and `oracle`; it imports torch.
        scenarios: the kinds of inputs that `make_inputs` knows and `verify` tries; the first is what is timed.
        gates: what outputs are held to.
        verify_batches: batch sizes that `verify` tries.
        head_layouts: (HQ, HV) by name; the first is the default.
        flops: floating-point operations at a shape.
        baseline: the kernel that others are compared with.
        fallback_baseline: the one to compare with where the baseline cannot be had.
        floor: the pseudo-kernel that is the speed of light.
        copy: the input and the output of equal size that the copying floor moves.
        suites: workloads with their weights, by the suite's name.
    """

    name: str
    title: str
    inputs: tuple[TensorSpec, ...]
    scalars: tuple[str, ...]
    outputs: tuple[TensorSpec, ...]
    numerics: str
    scenarios: tuple[str, ...]
    gates: tuple[UlpGate | RmsGate, ...]
    verify_batches: tuple[int, ...]
    head_layouts: Mapping[str, tuple[int, int]]
    flops: Callable[[Shape], int]
    baseline: str
    fallback_baseline: str
    floor: str
    copy: tuple[str, str]
    suites: Mapping[str, Mapping[Shape, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name)
        for name in self.suites:
            self.suite(name)

    def suite(self, name: str) -> Suite:
        """A suite by its name.

        Raises:
            UnknownNameError: if the op has none of that name.
            DeclarationError: if its workloads or weights make no sense.
        """
        if name not in self.suites:
            known = ", ".join(self.suites) or "none"
            raise UnknownNameError(f"{self.name} has no suite {name}", f"there are: {known}")
        return Suite(name, self.suites[name])

    @property
    def default_shape(self) -> Shape:
        """Batch 1 at the first head layout."""
        query_heads, value_heads = next(iter(self.head_layouts.values()))
        return Shape(HQ=query_heads, HV=value_heads)

    def traffic_bytes(self, shape: Shape) -> int:
        """The least bytes that must cross device memory: each input read once, each output written once."""
        return sum(tensor.nbytes(shape) for tensor in (*self.inputs, *self.outputs))

    def copy_bytes(self, shape: Shape) -> int:
        """What the copying floor moves: one tensor read, one written."""
        return sum(tensor.nbytes(shape) for tensor in (*self.inputs, *self.outputs) if tensor.name in self.copy)
