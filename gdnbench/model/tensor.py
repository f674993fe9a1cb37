"""Tensors as ops and kernels declare them (name, sizes, element type), and the gates that outputs must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, get_args

from gdnbench.errors import DeclarationError

Dtype = Literal["bf16", "fp16", "fp32", "fp64", "fp8e4m3", "fp4x2", "int8", "int32", "int64", "bool"]
"""Element types; `fp4x2` is two e2m1 numbers packed in a byte, of which sizes count the bytes."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)


@dataclass(frozen=True)
class DtypeFacts:
    """Properties of an element type, and its name in torch and in Triton's signatures.

    `significand_bits` counts the implicit bit and is 0 where nothing is rounded. The smallest subnormal is 2 to the
    power `smallest_exponent`.
    """

    nbytes: int
    torch: str
    triton: str
    significand_bits: int = 0
    smallest_exponent: int = 0


# IEEE 754-2019 for fp16 to fp64; bf16 is fp32's upper half; e4m3 and e2m1 are of the OCP formats (OFP8 1.0, MX 1.0).
FACTS: Mapping[Dtype, DtypeFacts] = {
    "bf16": DtypeFacts(2, "bfloat16", "bf16", 8, -133),
    "fp16": DtypeFacts(2, "float16", "fp16", 11, -24),
    "fp32": DtypeFacts(4, "float32", "fp32", 24, -149),
    "fp64": DtypeFacts(8, "float64", "fp64", 53, -1074),
    "fp8e4m3": DtypeFacts(1, "float8_e4m3fn", "fp8e4nv", 4, -9),
    "fp4x2": DtypeFacts(1, "uint8", "u8"),
    "int8": DtypeFacts(1, "int8", "i8"),
    "int32": DtypeFacts(4, "int32", "i32"),
    "int64": DtypeFacts(8, "int64", "i64"),
    "bool": DtypeFacts(1, "bool", "i1"),
}


@dataclass(frozen=True)
class DtypeOf:
    """An element type that a compile-time axis decides: `DtypeOf("STATE", {32: "fp32", 16: "bf16"})`.

    `dtypes` has the element type for each size; the axis takes no other size.
    """

    axis: str
    dtypes: Mapping[int, Dtype] = field(hash=False)


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of an op's contract, or of a kernel's scratch memory; DeclarationError for an unknown element type.

    `dims` are sizes: an axis's or a derived size's name (`"B"`), or a number. An axis may decide `dtype`.
    """

    name: str
    dims: tuple[str | int, ...]
    dtype: Dtype | DtypeOf

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", tuple(self.dims))
        for dtype in self.dtypes:
            if dtype not in DTYPES:
                raise DeclarationError(f"{self.name}: there is no dtype {dtype!r}, there are {', '.join(DTYPES)}")

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """Every element type that the tensor may have."""
        return tuple(self.dtype.dtypes.values()) if isinstance(self.dtype, DtypeOf) else (self.dtype,)

    def dtype_at(self, named: Mapping[str, int]) -> Dtype:
        """The element type, by the values of axes: see `Op.named_sizes`."""
        return self.dtype.dtypes[named[self.dtype.axis]] if isinstance(self.dtype, DtypeOf) else self.dtype

    @property
    def settled(self) -> Dtype:
        """The element type of a tensor whose type no axis decides: see `Op.at`; DeclarationError otherwise."""
        if isinstance(self.dtype, DtypeOf):
            raise DeclarationError(f"{self.name}: its dtype is known at a workload alone, by {self.dtype.axis}")
        return self.dtype

    def sizes(self, named: Mapping[str, int]) -> tuple[int, ...]:
        """The tensor's sizes, by the values of axes and derived sizes: see `Op.named_sizes`."""
        return tuple(named[dim] if isinstance(dim, str) else dim for dim in self.dims)

    def nbytes(self, named: Mapping[str, int]) -> int:
        """The tensor's size in bytes."""
        return prod(self.sizes(named)) * FACTS[self.dtype_at(named)].nbytes


@dataclass(frozen=True)
class UlpGate:
    """Every element within `ulps` units in the last place of the tensor's dtype, plus `atol`, of the oracle.

    Where the oracle's root mean square exceeds 1, `atol` counts in units of it: an output near zero is then the
    remainder of terms that cancel, and a correct fp32 sum has lost digits in any order of summation.
    """

    tensor: str
    ulps: float
    atol: float


@dataclass(frozen=True)
class RmsGate:
    """Root mean square of the error, relative to that of the oracle, at most `limit`."""

    tensor: str
    limit: float


@dataclass(frozen=True)
class RoundoffGate:
    """Every element as near the oracle as the intermediate results' type allows on these inputs.

    The op's numerics give the error to allow: `roundoff(tensors, scalars)` returns for each output with such a gate a
    tensor, of its sizes or broadcast to them, of how far one rounding error in each operation takes each element, to
    first order, in unit roundoffs (2^-24 for fp32). For C = A Bᵀ, a sum of n terms, it is one line,
    `{"C": n**0.5 * (A.abs() @ B.abs().T)}`. An element fails whose error is more than `limit` times this. Half an ulp
    of the tensor's own type is allowed besides, and so is an error below the normal numbers.

    So the limit follows the inputs: the remainder of large terms that cancel is compared with those terms, a small
    element among large ones with itself, and one wrong element among millions is found.

    Attributes:
        limit: 8 is enough for operations with an error of 8 roundoffs, such as special functions of 2 ulp, and for a
            sum of n terms that counts sqrt(n) times the sum of their magnitudes: if rounding errors are independent and
            of mean zero, one sum exceeds that with a probability below 3e-14 n (Higham and Mary, A new approach to
            probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019).
        arithmetic: the floating-point type of intermediate results, whose roundoff counts.
    """

    tensor: str
    limit: float = 8.0
    arithmetic: Dtype = "fp32"


@dataclass(frozen=True)
class ExactGate:
    """Every element equal to the oracle's: for integers, booleans and values that are only copied."""

    tensor: str


Gate = UlpGate | RmsGate | RoundoffGate | ExactGate
