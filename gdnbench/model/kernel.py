"""Declarations of kernels: the contents of a `variant.py`, without code that runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, SupportsIndex, overload

from gdnbench.errors import DeclarationError, ParamError
from gdnbench.model.declaration import Param, Params, ParamValue, TensorSpec, check_name
from gdnbench.model.status import Invariance
from gdnbench.model.workload import Shape, Workload

Floor = Literal["", "empty", "copy", "ablation"]
Device = Literal["cuda", "cpu"]
PerCase = Callable[[Workload, Params], int]
Sizes = tuple[int, ...]
Grid = Callable[[Workload, Params], Sizes]

_CHOICE = re.compile(r"[^\s:,=/\x00-\x1f\x7f-\x9f]{1,40}")  # is part of a label: decode-x:MODE=fast
_PARAM_NAME = re.compile(r"[A-Z][A-Z0-9_]*")  # results have a column for each param, beside lower-case columns

NOTHING_IN_PLACE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Requirement:
    """A module that a kernel needs beyond gdnbench's own dependencies, and the extra that installs it, if any."""

    module: str
    extra: str = ""

    @property
    def remedy(self) -> str:
        """The command that installs it, or the request to install it."""
        return f"pip install 'gdnbench[{self.extra}]'" if self.extra else f"install the package that has {self.module}"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A named implementation of an op."""

    language: ClassVar[str]

    name: str  # unique in the catalog, `decode-v4`
    source: str  # the implementing file in the kernel's folder; `entry` is the function in it
    entry: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, ParamValue]] = field(default_factory=dict)
    # Defaults at some workloads, as a sweep found them; any other workload takes those of the nearest one by size. A
    # copying floor is tried in all of them, and measured in the fastest.
    by_shape: Mapping[Shape, Mapping[str, ParamValue]] = field(default_factory=dict)
    requires: tuple[Requirement, ...] = ()
    since: str = ""  # the first architecture with the kernel's instructions, as `sm_90` for clusters; empty for any
    # For a pseudo-kernel, the bound it measures; `ablation` for a kernel with parts left out, which is timed, not
    # verified and not compared. Empty for a real kernel.
    floor: Floor = ""
    # Outputs that the kernel updates in place, each with the input that it starts from: `{"new_state": "state"}`. The
    # kernel is given the output and leaves the input alone. Before every checked launch the output holds the input's
    # values; from one timed launch to the next it evolves.
    in_place: Mapping[str, str] = field(default_factory=dict)
    invariant: tuple[Invariance, ...] = ()  # claims, which `verify` tests; a line of its own is no part of the source
    # Tensors whose members along their first axis may lie apart, as states in slots that hold more; a claim, too.
    # Launches may take how many elements there are from one member to the next: `pool_stride`, 64 bits.
    strided: tuple[str, ...] = ()
    check: Callable[[Workload], str] = lambda _workload: ""  # why it does not support a workload; empty if it does

    def __post_init__(self) -> None:
        for name in (self.name, *self.presets):
            check_name(name)
        _check_arch(self.name, "since", self.since)
        if not isinstance(self.in_place, Mapping):
            raise DeclarationError('in_place: a mapping from outputs to inputs, as in {"new_state": "state"}')
        for name, param in self.params.items():
            if not _PARAM_NAME.fullmatch(name):
                raise DeclarationError(f"param {name}: a name is upper case, as in WARPS")
            for choice in param.choices:
                if isinstance(choice, str) and not _CHOICE.fullmatch(choice):
                    said = f"the choice {choice!r} has a space or one of : , = / in it, or none at all"
                    raise DeclarationError(f"param {name}: {said}")
        if strange := [shape for shape in self.by_shape if not isinstance(shape, Shape)]:
            raise DeclarationError(f"by_shape {strange[0]!r}: not a Shape", "as in {Shape(B=8): {...}}")
        for field_name, settings in (("preset", self.presets), ("by_shape", self.by_shape)):
            for key, values in settings.items():
                try:
                    self.resolve(values)
                except ParamError as error:
                    raise DeclarationError(f"{field_name} {key}: {error.message}", error.hint) from error

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that the kernel can run on."""
        return ("cuda",)

    @property
    def is_unchecked(self) -> bool:
        """Whether no gate applies: to an empty floor, which has no results, and to an ablation."""
        return self.floor in {"empty", "ablation"}

    def unsupported_reason(self, workload: Workload) -> str:
        """Why the kernel does not support a workload, or how its `check` failed; empty if it does."""
        try:
            return self.check(workload)
        except Exception as error:  # what a declaration raises is not known
            return f"its check failed: {type(error).__name__}: {error}"

    def fits(self, arch: str) -> bool:
        """Whether an architecture, `sm_90`, has the kernel's instructions: it is not before `since`."""
        return not self.since or _number(arch) >= _number(self.since)

    def at_revision(self, revision: str) -> Self:
        """The same kernel and presets under names of a git revision: `decode-v4@0a1b2c3d`."""
        named = copy(self)
        object.__setattr__(named, "name", f"{self.name}@{revision}")
        object.__setattr__(named, "presets", {f"{name}@{revision}": each for name, each in self.presets.items()})
        return named

    def resolve(self, values: Mapping[str, ParamValue]) -> Params:
        """All params: the given values, and the defaults for the rest; ParamError for an unknown param or value."""
        for name in values:
            if name not in self.params:
                known = ", ".join(self.params) or "none"
                raise ParamError(f"{self.name} has no param {name}", f"its params: {known}")
        values = {name: param.default for name, param in self.params.items()} | dict(values)
        return Params({name: self.params[name].parse(name, value) for name, value in values.items()})


def _hold_to_numbers(launch: CudaLaunch | TritonLaunch, *names: str) -> None:
    """Makes these functions of a launch raise DeclarationError on what is not a number; numbers stay as they are."""
    for name in names:
        checked = partial(_numbers, getattr(launch, name), f"`{name}` in variant.py returns", is_one=name != "grid")
        object.__setattr__(launch, name, checked)


def _numbers(given: Callable[..., Any], what: str, workload: Workload, params: Params, *, is_one: bool = False) -> Any:
    value = given(workload, params)
    numbers = (value,) if is_one else value
    if not isinstance(numbers, tuple | list) or not all(isinstance(each, SupportsIndex) for each in numbers):
        raise DeclarationError(f"{what} {value!r}, not a {'whole number' if is_one else 'tuple of whole numbers'}")
    return value if is_one else tuple(value)


MAP_BYTES = 128  # of a tensor map
_BOX_PIECE, _MOST_BOX, _MOST_AXES = 16, 256, 5  # bytes that divide a row; elements along an axis; axes
_SWIZZLES, _PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)


@dataclass(frozen=True)
class TensorMap:
    """A tensor as bulk copies find it, 128 bytes (`<gdn/tensor_map.cuh>`); DeclarationError for another swizzle."""

    tensor: str  # an input, an output or scratch
    box: Sizes | Grid  # elements that a copy brings along each of its axes, or their function
    swizzle: int = 128  # bytes of a row of the box in which pieces of 16 are exchanged; 0 for none
    promotion: PerCase = lambda _workload, _params: 128  # bytes that a copy brings into the L2 where it misses it, or 0
    sizes: Grid | None = None  # of the tensor's elements as they lie, where the map sees them by other axes

    def __post_init__(self) -> None:
        if self.swizzle not in _SWIZZLES:
            said = f"there is no swizzle {self.swizzle!r}, there are {', '.join(map(str, _SWIZZLES))}"
            raise DeclarationError(f"TensorMap of {self.tensor}: {said}")

    def sizes_and_box(self, workload: Workload, params: Params, whole: Sizes, itemsize: int) -> tuple[Sizes, Sizes]:
        """The sizes by which a tensor is seen, and the box in it; DeclarationError if no map has them."""
        what = f"TensorMap of {self.tensor}:"
        sizes = _numbers(self.sizes, f"{what} `sizes` returns", workload, params) if self.sizes else tuple(whole)
        box = _numbers(self.box, f"{what} `box` returns", workload, params) if callable(self.box) else tuple(self.box)
        row = box[-1] * itemsize if box else 0
        reason = ""
        if len(box) != len(sizes) or len(box) > _MOST_AXES:
            reason = f"has {len(box)} axes, the tensor {len(sizes)}; a map has as many, and {_MOST_AXES} at most"
        elif prod(sizes) != prod(whole):
            reason = f"is one of {sizes}, which are not the elements of a tensor of {tuple(whole)}"
        elif not all(1 <= each <= _MOST_BOX for each in box):
            reason = f"has an axis that is not 1 to {_MOST_BOX} long"
        elif row % _BOX_PIECE or (len(sizes) > 1 and sizes[-1] * itemsize % _BOX_PIECE):
            reason = f"has rows of {row} bytes, the tensor of {sizes[-1] * itemsize}, no multiples of {_BOX_PIECE}"
        elif row > self.swizzle > 0:
            reason = f"has rows of {row} bytes, longer than the swizzle of {self.swizzle}"
        elif (promotion := self.promotion(workload, params)) not in _PROMOTIONS:
            reason = f"has a promotion of {promotion} bytes, there are {', '.join(map(str, _PROMOTIONS))}"
        if reason:
            raise DeclarationError(f"{what} the box {box} {reason}")
        return sizes, box


@dataclass(frozen=True, kw_only=True)
class CudaLaunch:
    """One launch of a kernel in CUDA C++."""

    entry: str
    grid: Grid  # blocks per axis, from workload and params
    block: PerCase  # threads per block
    shared_bytes: PerCase = lambda _workload, _params: 0  # dynamic shared memory per block
    # The function's arguments by name, in its order: inputs, scalars, outputs, scratch, axes that are not compile-time
    # (`int`) and derived sizes (`long long`), and maps of tensors. None for all of them but maps, in this order.
    arguments: tuple[str | TensorMap, ...] | None = None
    # Whether it may begin before the call's launches in front of it have ended (programmatic dependent launch): it
    # touches what they write after a `griddepcontrol.wait` alone
    begins_early: bool = False

    def __post_init__(self) -> None:
        _hold_to_numbers(self, "grid", "block", "shared_bytes")


_ARCH, _FIRST_EARLY = re.compile(r"sm_[0-9]{2,4}[af]?"), "sm_90"


def _number(arch: str) -> int:
    """The number of an architecture: `sm_90` and `sm_90a` are 90."""
    return int(arch.removeprefix("sm_").rstrip("af"))


@dataclass(frozen=True, kw_only=True)
class TritonLaunch:
    """One launch of a kernel in Triton."""

    entry: str  # the function in the source; its arguments are bound by their names
    grid: Grid  # programs per axis, from workload and params
    warps: PerCase = lambda _workload, _params: 1  # per program
    stages: PerCase = lambda _workload, _params: 1  # depth of software pipelining

    def __post_init__(self) -> None:
        _hold_to_numbers(self, "grid", "warps", "stages")


@dataclass(frozen=True, kw_only=True)
class LaunchedKernel(Kernel):
    """A kernel of declared launches: one, given by `entry`, `grid` and more, or several, in `launches`.

    Launches are in order on one stream. DeclarationError is raised for neither or both, or an unknown architecture.
    """

    launch_kind: ClassVar[type[CudaLaunch | TritonLaunch]]
    needed: ClassVar[tuple[str, ...]]  # the fields of a launch that have no default

    grid: Grid | None = None
    launches: tuple[Any, ...] = ()
    scratch: tuple[TensorSpec, ...] = ()  # undefined before a call; `dims` may name params, too

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scratch", tuple(self.scratch))
        given = [getattr(self, name) for name in self.needed]
        if self.launches:
            _check_launches(self.launches, self.launch_kind, *given)
        elif not all(given):
            names = ", ".join(f"`{name}`" for name in self.needed[:-1])
            raise DeclarationError(f"{self.name}: a launch needs {names} and `{self.needed[-1]}`", "or give `launches`")
        one = {each.name: getattr(self, each.name) for each in fields(self.launch_kind) if hasattr(self, each.name)}
        object.__setattr__(self, "launches", tuple(self.launches) or (self.launch_kind(**one),))


@dataclass(frozen=True, kw_only=True)
class CudaKernel(LaunchedKernel):
    """A kernel in CUDA C++, compiled by NVRTC.

    The source sees every compile-time axis as a macro, `GDN_HQ` where the op's prefix is `GDN_`, and each param under
    its own name. `target` is the one target whose own instructions the kernel uses, as `sm_90a` has wgmma; empty for
    any GPU.
    """

    language: ClassVar[str] = "cuda"
    launch_kind = CudaLaunch
    needed = ("entry", "grid", "block")

    source: str = "kernel.cu"
    block: PerCase | None = None
    shared_bytes: PerCase = lambda _workload, _params: 0
    launches: tuple[CudaLaunch, ...] = ()
    target: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_arch(self.name, "target", self.target)
        _check_early(self.launches, self.target or self.since)

    def fits(self, arch: str) -> bool:
        """Whether the architecture is the kernel's target, if it has one, and not before `since`."""
        return super().fits(arch) and (not self.target or self.target.rstrip("af") == arch.rstrip("af"))


@dataclass(frozen=True, kw_only=True)
class CuteKernel(CudaKernel):
    """A kernel in CuTe DSL, launched as those in CUDA C++: a function of the launch's arguments, then of constants."""

    language: ClassVar[str] = "cute"
    source: str = "kernel.py"
    requires: tuple[Requirement, ...] = (Requirement("cutlass", "cute"),)


@dataclass(frozen=True, kw_only=True)
class CutileKernel(CudaKernel):
    """A kernel in cuTile, of tiles of the launch's tensors; its compiler decides how many threads a block has."""

    language: ClassVar[str] = "cutile"
    source: str = "kernel.py"
    requires: tuple[Requirement, ...] = (Requirement("cuda.tile", "cutile"),)


@dataclass(frozen=True, kw_only=True)
class TritonKernel(LaunchedKernel):
    """A kernel in Triton.

    Functions take by name what they need: the op's tensors, scratch, scalars, axes and derived sizes, and params.
    Params, and axes that the op declares compile-time, are `tl.constexpr`.
    """

    language: ClassVar[str] = "triton"
    launch_kind = TritonLaunch
    needed = ("entry", "grid")

    source: str = "kernel.py"
    warps: PerCase = lambda _workload, _params: 1
    stages: PerCase = lambda _workload, _params: 1
    launches: tuple[TritonLaunch, ...] = ()


def _check_arch(name: str, field: str, value: str) -> None:
    if value and not (isinstance(value, str) and _ARCH.fullmatch(value)):
        raise DeclarationError(f"{name}: {field} {value!r} is not an architecture", f"as in {field}='sm_90'")


def _check_launches(launches: object, kind: type, *single: object) -> None:
    if not isinstance(launches, tuple | list) or not all(isinstance(each, kind) for each in launches):
        raise DeclarationError(f"launches: a tuple of {kind.__name__}")
    if any(single):
        raise DeclarationError("`launches` stands for entry, grid, block and what goes with them: leave those out")
    entries = [each.entry for each in launches]
    if len(set(entries)) != len(entries):
        raise DeclarationError(f"launches: {', '.join(entries)}: each has an entry of its own")


def _check_early(launches: tuple[CudaLaunch, ...], arch: str) -> None:
    early = [each.entry for each in launches if each.begins_early]
    if early[:1] == [launches[0].entry]:
        text = "the first launch cannot begin early, for it would overlap what came before the call"
        raise DeclarationError(f"{early[0]}: {text}", "`begins_early` is for later ones")
    if early and (not arch or _number(arch) < _number(_FIRST_EARLY)):
        text = f"{early[0]}: launches begin early from {_FIRST_EARLY} on, and the kernel is for older GPUs, too"
        raise DeclarationError(text, f"since={_FIRST_EARLY!r}")


@dataclass(frozen=True, kw_only=True)
class TorchKernel(Kernel):
    """A kernel reached through Python: torch operations, or another library's function.

    `entry` is a function `bind(tensors, workload, params)`. It returns a function without arguments that launches the
    work on the current stream and returns the op's outputs, in the op's order. Every allocation that can be made once
    belongs in `bind`. `runs_on` are the devices it can run on.
    """

    language: ClassVar[str] = "torch"

    source: str = "kernel.py"
    entry: str = "bind"
    runs_on: tuple[Device, ...] = ("cuda", "cpu")

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices in `runs_on`."""
        return self.runs_on


@overload
def launch_of(kernel: CudaKernel, entry: str) -> CudaLaunch: ...
@overload
def launch_of(kernel: TritonKernel, entry: str) -> TritonLaunch: ...
@overload
def launch_of(kernel: Kernel, entry: str) -> CudaLaunch | TritonLaunch: ...
def launch_of(kernel: Kernel, entry: str) -> CudaLaunch | TritonLaunch:
    """The launch of an entry, which there has to be, the first for an empty one; TypeError if nothing is compiled."""
    if not isinstance(kernel, CudaKernel | TritonKernel):
        raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")
    return next(each for each in kernel.launches if entry in {"", each.entry})


@dataclass(frozen=True, kw_only=True)
class DispatchKernel(Kernel):
    """A name for the best kernel at each workload: picks a kernel and its params from a table.

    Its source is the table, TOML, as `gdnbench sweep KERNELS --emit-dispatch` prints it; `catalog/load.py` has the
    format. DeclarationError is raised if it declares what only the kernels that it picks can have.
    """

    language: ClassVar[str] = "dispatch"

    source: str = "dispatch.toml"
    entry: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        fields = ("entry", "params", "presets", "by_shape", "floor", "in_place", "strided")
        if declared := [name for name in fields if getattr(self, name)]:
            raise DeclarationError(f"{', '.join(declared)}: a dispatcher takes those of the kernel that it picks")
