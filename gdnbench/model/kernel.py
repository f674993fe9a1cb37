"""Declarations of kernels: what a `variant.py` says, and nothing that runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar, Literal

from gdnbench.errors import DeclarationError, ParamError
from gdnbench.model.name import check_name
from gdnbench.model.params import Param, Params, ParamValue
from gdnbench.model.shape import Shape, nearest_shape

Floor = Literal["", "empty", "copy"]
Device = Literal["cuda", "cpu"]
PerCase = Callable[[Shape, Params], int]
Grid = Callable[[Shape, Params], tuple[int, ...]]

AXES = tuple(axis.name for axis in fields(Shape))
_CHOICE = re.compile(r"[^\s:,=/\x00-\x1f\x7f-\x9f]{1,40}")  # stands in a label: decode-x:MODE=fast
_PARAM_NAME = re.compile(r"[A-Z][A-Z0-9_]*")  # results have a column for each, beside lower-case ones

NO_PARAMS: Mapping[str, Param] = MappingProxyType({})
NO_PRESETS: Mapping[str, Mapping[str, ParamValue]] = MappingProxyType({})
NOT_BY_SHAPE: Mapping[Shape, Mapping[str, ParamValue]] = MappingProxyType({})
NOTHING_IN_PLACE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Requirement:
    """A Python module that a kernel needs beyond gdnbench's own dependencies.

    Attributes:
        module: what is imported, `fla`.
        extra: the extra of gdnbench that installs it, `fla`.
    """

    module: str
    extra: str

    @property
    def remedy(self) -> str:
        """The command that installs it."""
        return f"pip install 'gdnbench[{self.extra}]'"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A named implementation of an op.

    Attributes:
        name: unique in the catalog, `decode-v4`.
        source: the implementing file in the kernel's folder.
        entry: the function in it.
        params: compile-time constants, by name.
        presets: further names of this kernel with some params fixed.
        by_shape: defaults that hold at some shapes, as a sweep found them; at any other shape, those of the nearest
            one do, by the number of heads in the batch.
        requires: modules beyond gdnbench's own dependencies.
        floor: for a pseudo-kernel, the bound it measures; empty for a real one.
        in_place: outputs that it updates where they stand, each with the input that it starts from:
            `{"new_state": "state"}`. It is given the output and leaves the input alone. Before every launch that is
            checked, the output holds the input's values; from one timed launch to the next it evolves.
    """

    language: ClassVar[str]

    name: str
    source: str
    entry: str
    params: Mapping[str, Param] = field(default_factory=lambda: NO_PARAMS)
    presets: Mapping[str, Mapping[str, ParamValue]] = field(default_factory=lambda: NO_PRESETS)
    by_shape: Mapping[Shape, Mapping[str, ParamValue]] = field(default_factory=lambda: NOT_BY_SHAPE)
    requires: tuple[Requirement, ...] = ()
    floor: Floor = ""
    in_place: Mapping[str, str] = field(default_factory=lambda: NOTHING_IN_PLACE)

    def __post_init__(self) -> None:
        for name in (self.name, *self.presets):
            check_name(name)
        for name in self.params:
            if name in AXES or not _PARAM_NAME.fullmatch(name):
                raise DeclarationError(
                    f"param {name}: a name is upper case, as in WARPS, and no axis ({', '.join(AXES)})"
                )
        if not isinstance(self.in_place, Mapping):
            raise DeclarationError('in_place: a mapping from outputs to inputs, as in {"new_state": "state"}')
        for name, param in self.params.items():
            for choice in param.choices:
                if isinstance(choice, str) and not _CHOICE.fullmatch(choice):
                    raise DeclarationError(
                        f"param {name}: the choice {choice!r} has a space or one of : , = / in it, or none at all"
                    )
        for preset, values in self.presets.items():
            try:
                self.resolve(values)
            except ParamError as error:
                raise DeclarationError(f"preset {preset}: {error.message}", error.hint) from error
        for shape, values in self.by_shape.items():
            if not isinstance(shape, Shape):
                raise DeclarationError(f"by_shape {shape!r}: not a Shape", "as in {Shape(B=8): {...}}")
            try:
                self.resolve(values)
            except ParamError as error:
                raise DeclarationError(f"by_shape {shape}: {error.message}", error.hint) from error

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that the kernel can run on."""
        return ("cuda",)

    def defaults(self, shape: Shape) -> Params:
        """All params at their defaults for a shape."""
        if not self.by_shape:
            return self.resolve({})
        return self.resolve(self.by_shape[nearest_shape(self.by_shape, shape)])

    def resolve(self, values: Mapping[str, ParamValue]) -> Params:
        """All params: the given values checked against their choices, the defaults for the rest.

        Raises:
            ParamError: for an unknown param or a value outside its choices.
        """
        for name in values:
            if name not in self.params:
                known = ", ".join(self.params) or "none"
                raise ParamError(f"{self.name} has no param {name}", f"its params: {known}")
        return Params(
            {
                name: param.parse(name, values[name]) if name in values else param.default
                for name, param in self.params.items()
            }
        )


def _one(_shape: Shape, _params: Params) -> int:
    return 1


def _none(_shape: Shape, _params: Params) -> int:
    return 0


@dataclass(frozen=True, kw_only=True)
class CudaKernel(Kernel):
    """A kernel in CUDA C++, compiled by NVRTC.

    The source sees the head layout as the macros `GDN_HQ`, `GDN_HV`, `GDN_K`, `GDN_V` and each param under its
    own name; its arguments are those of the op, which all CUDA kernels of the op share.

    Attributes:
        grid: blocks per axis, from shape and params.
        block: threads per block.
        shared_bytes: dynamic shared memory per block, in bytes.
    """

    language: ClassVar[str] = "cuda"

    source: str = "kernel.cu"
    grid: Grid
    block: PerCase
    shared_bytes: PerCase = _none


@dataclass(frozen=True, kw_only=True)
class TritonKernel(Kernel):
    """A kernel in Triton.

    The function's arguments are the op's tensors by name, then its scalars, then constants: the head layout
    (`HQ`, `HV`, `K`, `V`) and every param that is not `WARPS` or `STAGES`; it takes those it names.

    Attributes:
        grid: programs per axis, from shape and params.
        warps: warps per program.
        stages: depth of software pipelining.
    """

    language: ClassVar[str] = "triton"

    source: str = "kernel.py"
    grid: Grid
    warps: PerCase = _one
    stages: PerCase = _one


@dataclass(frozen=True, kw_only=True)
class TorchKernel(Kernel):
    """A kernel reached through Python: torch operations, or another library's function.

    `entry` is a function `bind(tensors, shape, params)` that returns a function without arguments; that one
    launches the work on the current stream and returns the op's outputs, in the op's order. Every allocation that
    can be made once belongs in `bind`.

    Attributes:
        runs_on: the devices it can run on.
    """

    language: ClassVar[str] = "torch"

    source: str = "kernel.py"
    entry: str = "bind"
    runs_on: tuple[Device, ...] = ("cuda", "cpu")

    @property
    def devices(self) -> tuple[Device, ...]:
        """As declared."""
        return self.runs_on
