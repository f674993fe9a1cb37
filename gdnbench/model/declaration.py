"""The parts of a declaration: names, params, tensors, gates, profiles of inputs, hints for `explain`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, get_args

from gdnbench.errors import DeclarationError, ParamError

ParamValue = int | str


def parse_value(text: str) -> ParamValue:
    """A param's value from text: an integer if it is one."""
    try:
        return int(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Param:
    """A compile-time constant that a user may set; `default` is one of `choices`, or DeclarationError is raised."""

    default: ParamValue
    choices: tuple[ParamValue, ...]
    doc: str = ""

    def __post_init__(self) -> None:
        if self.default not in self.choices:
            raise DeclarationError(f"default {self.default!r} is not among the choices {self.choices}")

    def parse(self, name: str, value: ParamValue) -> ParamValue:
        """The choice that `value`, perhaps text from a command line, stands for; ParamError if there is none."""
        for choice in self.choices:
            if str(choice) == str(value):
                return choice
        allowed = ", ".join(map(str, self.choices))
        raise ParamError(f"{name}={value} is not a value of {name}", f"it takes {allowed}")


class Params(Mapping[str, ParamValue]):
    """The values of a kernel's params, read as `p.WARPS` or `p["WARPS"]`; immutable and hashable."""

    _values: dict[str, ParamValue]

    def __init__(self, values: Mapping[str, ParamValue] | None = None) -> None:
        self.__dict__["_values"] = dict(values or {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: params do not change")

    def __getitem__(self, name: str) -> ParamValue:
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        # Typed as int, since grids and blocks compute with it; a text-valued param is only compared.
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no param {name}; there are {sorted(self.__dict__.get('_values', ()))}")
        return self._values[name]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __repr__(self) -> str:
        return f"Params({self})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._values.items())


EVERY = "all"  # the word for every kernel, or profile, on the command line

MOST_CHARACTERS = 80
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def check_name(name: str) -> None:
    """Raises DeclarationError for a name that is not valid."""
    if name == EVERY:
        raise DeclarationError(f"the name {EVERY!r} means all that there are; choose another")
    if len(name) > MOST_CHARACTERS:
        message = f"the name {name[:40]!r}… has {len(name)} characters, and {MOST_CHARACTERS} are the most"
        raise DeclarationError(message, "choose a shorter one")
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"the name {name[:80]!r} is not made of letters, digits and . _ + -, a letter or digit first"
        )


CAUSES = (
    *("too_few_warps", "many_launches", "latency", "idle_sms", "uneven_sms", "limited_occupancy", "bandwidth"),
    *("compute", "launch_bound", "spilling", "uncoalesced", "bank_conflicts", "barriers", "narrow_loads"),
    "lowered_clock",
)
"""The names of the rules in `gdnbench/diagnose/gather.py` to which a hint may belong."""

_LONGEST = 300  # characters: four lines of a terminal


@dataclass(frozen=True)
class Hint:
    """A line that `explain` prints below findings on an op's kernels; without `causes` it belongs to every finding."""

    text: str
    causes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        causes = (self.causes,) if isinstance(self.causes, str) else tuple(self.causes)
        object.__setattr__(self, "causes", causes)
        if not self.text.strip() or len(self.text) > _LONGEST or not self.text.isprintable():
            raise DeclarationError(f"the hint {self.text[:40]!r} is not a line of 1 to {_LONGEST} characters")
        if unknown := [cause for cause in causes if cause not in CAUSES]:
            raise DeclarationError(f"explain has no rule {', '.join(map(str, unknown))}: {', '.join(CAUSES)}")


DEFAULT_INPUTS = "typical"  # the name of the first profile in runs stored before ops had profiles; it is still accepted
CAPTURED = "file:"  # the prefix of the profile of captured inputs; the name of a file and a part of its hash follow

_LONGEST_STEM = 40
_HASH_DIGITS = 8


def captured_profile(stem: str, sha256: str) -> str:
    """The profile of the inputs in a file, `file:layer-3-1f0c2d3e`: its stem, and a part of its content's hash."""
    return f"{CAPTURED}{re.sub(r'[^A-Za-z0-9.]+', '-', stem)[:_LONGEST_STEM]}-{sha256[:_HASH_DIGITS]}"


def is_captured(profile: str) -> bool:
    """Whether a profile is that of captured inputs, which no op declares."""
    return profile.startswith(CAPTURED)


@dataclass(frozen=True)
class Profile:
    """A named distribution of inputs, which the op's `make_inputs` draws from by that name; `doc` is a line on it.

    A scenario tests numbers; a profile is also timed, and is part of the identity of what is measured. Each run
    compares the `extreme` profiles, between which the time of a kernel that depends on its inputs differs most.
    """

    name: str
    doc: str
    extreme: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if "_" in self.name or "/" in self.name:
            raise DeclarationError(f"the profile {self.name!r}: a name is made of letters, digits and hyphens")


CONTEST_TOLERANCE = 1e-2
"""Absolute and relative error; an element is wrong where both are larger, and none of GDN's outputs may have one."""

CONTEST_SUITE = "contest"
"""The suite of contest workloads; a weight counts the lines of the contest's data set with the workload."""


def contest_baseline(op: str) -> str:
    """The name of the FlashInfer kernel over which the contest measures speedups."""
    return f"{op}-flashinfer"


Dtype = Literal["bf16", "fp16", "fp32", "fp64", "fp8e4m3", "fp4x2", "int8", "int32", "int64", "bool"]
"""Element types; `fp4x2` is two e2m1 numbers packed in a byte, of which sizes count the bytes."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)


@dataclass(frozen=True)
class DtypeFacts:
    """Properties of an element type, and its name in torch, in Triton's signatures and in CuTe DSL."""

    nbytes: int
    torch: str
    triton: str
    cute: str
    significand_bits: int = 0  # with the implicit bit; 0 where nothing is rounded
    smallest_exponent: int = 0  # the smallest subnormal is 2 to this power


# IEEE 754-2019 for fp16 to fp64; bf16 is fp32's upper half; e4m3 and e2m1 are of the OCP formats (OFP8 1.0, MX 1.0).
FACTS: Mapping[Dtype, DtypeFacts] = {
    "bf16": DtypeFacts(2, "bfloat16", "bf16", "BFloat16", 8, -133),
    "fp16": DtypeFacts(2, "float16", "fp16", "Float16", 11, -24),
    "fp32": DtypeFacts(4, "float32", "fp32", "Float32", 24, -149),
    "fp64": DtypeFacts(8, "float64", "fp64", "Float64", 53, -1074),
    "fp8e4m3": DtypeFacts(1, "float8_e4m3fn", "fp8e4nv", "Float8E4M3FN", 4, -9),
    "fp4x2": DtypeFacts(1, "uint8", "u8", "Uint8"),
    "int8": DtypeFacts(1, "int8", "i8", "Int8"),
    "int32": DtypeFacts(4, "int32", "i32", "Int32"),
    "int64": DtypeFacts(8, "int64", "i64", "Int64"),
    "bool": DtypeFacts(1, "bool", "i1", "Uint8"),
}


@dataclass(frozen=True)
class DtypeOf:
    """An element type that a compile-time axis decides: `DtypeOf("STATE", {32: "fp32", 16: "bf16"})`."""

    axis: str
    dtypes: Mapping[int, Dtype] = field(hash=False)


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of an op's contract, or of a kernel's scratch memory; `dims` are names of sizes, or numbers."""

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
class TensorExtent:
    """A tensor's size along an axis, or the stride of that in elements, as an argument of its own: `int`."""

    tensor: str
    axis: int
    is_stride: bool

    def of(self, tensor: Any) -> int:
        """The number, of a tensor of torch."""
        return int((tensor.stride() if self.is_stride else tensor.shape)[self.axis])


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
    """

    tensor: str
    # 8 is enough for operations with an error of 8 roundoffs, such as special functions of 2 ulp, and for a sum of n
    # terms that counts sqrt(n) times the sum of their magnitudes: if rounding errors are independent and of mean zero,
    # one sum exceeds that with a probability below 3e-14 n (Higham and Mary, A new approach to probabilistic rounding
    # error analysis, SIAM J. Sci. Comput. 41, 2019).
    limit: float = 8.0
    arithmetic: Dtype = "fp32"  # the floating-point type of intermediate results, whose roundoff counts


@dataclass(frozen=True)
class ExactGate:
    """Every element equal to the oracle's: for integers, booleans and values that are only copied."""

    tensor: str


Gate = UlpGate | RmsGate | RoundoffGate | ExactGate
