"""An op: a computation with a fixed tensor contract, its workloads, gates and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

from gdnbench.errors import DeclarationError, ShapeError, UnknownNameError
from gdnbench.model.declaration import (
    DEFAULT_INPUTS,
    FACTS,
    DtypeOf,
    Gate,
    Hint,
    Profile,
    RoundoffGate,
    TensorSpec,
    UlpGate,
    check_name,
)
from gdnbench.model.gpu import Precision
from gdnbench.model.sequences import Sequences
from gdnbench.model.workload import Shape, Sizes, Workload, nearest_workload
from gdnbench.model.workload_spec import WorkloadSpec

SizeOf = Callable[[Workload], int]
CopyOf = Callable[[Mapping[str, Any], Workload], Mapping[str, Any]]
"""Outputs by name as they are after the copy, from inputs by name and the workload."""

DEFAULT_SUITE, VERIFY_SUITE = "default", "verify"


SuiteDeclaration = Mapping[Shape, float] | tuple[Shape, ...] | str
"""Workloads with weights, workloads of equal weight, or the name of a CSV file beside `op.py`."""

USUAL_PROCESS_SD = (0.001, 0.02)
"""Largest relative standard deviation between processes, without rounds and launches, on H200s and H100s.

It was 0.1 % for kernels of one launch and 0.7 to 1.9 % for chains, which wait for the host between launches and whose
libraries choose kernels by measuring.
"""


@dataclass(frozen=True)
class Suite:
    """Workloads that are measured together, with the weights of their geometric mean; only their ratios matter."""

    name: str
    weights: Mapping[Workload, float]

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.weights:
            raise DeclarationError(f"the suite {self.name} has no workloads")
        for workload, weight in self.weights.items():
            if not isinstance(workload, Workload) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise DeclarationError(f"the suite {self.name}: {workload}: {weight!r} is not a positive weight")

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads in the order declared."""
        return tuple(self.weights)

    def as_stored(self, stored: Iterable[Workload]) -> Suite:
        """The suite with a run's own workloads, at each of its profiles; axes added since are at their defaults."""
        complete = self.workloads[0].spec.completed
        known = {complete(workload): workload for workload in stored}
        profiles = dict.fromkeys(workload.profile for workload in known)
        weights = {workload.at(each): weight for each in profiles for workload, weight in self.weights.items()}
        return Suite(self.name, {known.get(workload, workload): weight for workload, weight in weights.items()})

    def by_profile(self) -> dict[str, Suite]:
        """The suite at each of its profiles, by the profile's name, which is empty for the first."""
        by_name: dict[str, dict[Workload, float]] = {}
        for workload, weight in self.weights.items():
            by_name.setdefault(workload.profile, {})[workload] = weight
        return {name: Suite(self.name, weights) for name, weights in by_name.items()}

    def at(self, profiles: Iterable[str]) -> Suite:
        """The suite's workloads with inputs of each of these profiles."""
        sizes = {workload.at(""): weight for workload, weight in self.weights.items()}
        return Suite(self.name, {each.at(profile): weight for profile in profiles for each, weight in sizes.items()})


@dataclass(frozen=True, kw_only=True)
class Op:
    """A computation with a fixed tensor contract; DeclarationError if its declarations contradict each other."""

    name: str
    title: str  # what it computes, in a line
    workloads: WorkloadSpec
    inputs: tuple[TensorSpec, ...]  # read-only tensors, in the order of every CUDA and Triton argument list
    outputs: tuple[TensorSpec, ...]  # written tensors, which follow the scalars
    gates: tuple[Gate, ...]
    scalars: tuple[str, ...] = ()  # names of fp32 scalars, which follow the inputs
    # File beside `op.py` with `make_inputs`, `oracle` and, for a `RoundoffGate`, `roundoff`; it imports torch
    numerics: str = "numerics.py"
    # The kinds of inputs that `make_inputs` knows and `verify` tries; without profiles the first is timed
    scenarios: tuple[str, ...] = (DEFAULT_INPUTS,)
    # The distributions of inputs that are timed, also known to `make_inputs`; the first is the distribution of the
    # first scenario, and of runs that are older than profiles
    profiles: tuple[Profile, ...] = ()
    profile: str = ""  # the profile that is timed by default; the first where it is empty
    # Names of inputs that make sense only as one draw, such as all inputs of the decays: no launch mixes them from
    # different draws
    drawn_together: tuple[tuple[str, ...], ...] = ()
    # By the name of a list, the input that holds where each of its members begins and the last one ends, from 0 on:
    # `{"lengths": "cu_seqlens"}`. The workload of captured inputs is found by it.
    ends: Mapping[str, str] = field(default_factory=dict)
    sequences: Sequences | None = None  # how a launch takes the sequences of a batch; `verify` compares them by it
    alike: tuple[str, ...] = ()  # axes whose members may be permuted, as heads may
    derived: Mapping[str, SizeOf] = field(default_factory=dict)  # sizes that follow from a workload, by name
    check: Callable[[Workload], str] = lambda _workload: ""  # why a workload is not valid; empty if it is
    suites: Mapping[str, SuiteDeclaration] = field(default_factory=dict)  # `default` is measured where none is named
    flops: Callable[[Workload], Mapping[Precision, int]] = lambda _workload: {}  # by precision
    # By precision, the one whose peak counts on a GPU that has no peak for it: `{"fp4": "fp16"}` where numbers of four
    # bits are widened
    instead: Mapping[Precision, Precision] = field(default_factory=dict)
    least_bytes: SizeOf | None = None  # by default each input read once, each output written once
    baselines: tuple[str, ...] = ()  # kernels that others are compared with; the first available one is taken
    floor: str = ""  # the pseudo-kernel whose time is the speed of light; empty if there is none
    # The input and the output of equal size that the copying floor moves; or, where it moves parts of them, a function
    # from inputs by name and the workload to outputs by name
    copy: tuple[str, str] | CopyOf | None = None
    copied_bytes: SizeOf | None = None  # what the floor reads and writes, where it moves only a part of these two
    # Relative standard deviations between processes, launch aside, of the time of a kernel of one launch and of one of
    # several, for runs of a single process (`benchmarks/process_spread.py`). The default is the largest that was
    # measured.
    process_sd: tuple[float, float] = USUAL_PROCESS_SD
    hints: tuple[Hint, ...] = ()
    macro_prefix: str = "AXIS_"  # before a compile-time axis's name in CUDA C++: `GDN_` makes `GDN_HQ`

    def __post_init__(self) -> None:
        check_name(self.name)
        for name in ("inputs", "outputs", "gates", "scalars", "scenarios", "profiles", "alike", "baselines", "hints"):
            if isinstance(getattr(self, name), str | Mapping):
                raise DeclarationError(f"{name}: a tuple, as in ({getattr(self, name)!r},)")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if strange := [hint for hint in self.hints if not isinstance(hint, Hint)]:
            raise DeclarationError(f"hints: {strange[0]!r} is not a Hint")
        names = tuple(each.name for each in self.profiles)
        object.__setattr__(self, "workloads", replace(self.workloads, profiles=names, profile=self.profile))
        self._check_names()
        self._check_profiles(names)
        self._check_tensors()
        if self.sequences:
            self.sequences.check(self)
        for name, declared in self.suites.items():
            check_name(name)
            if not isinstance(declared, str):
                self.suite(name)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @cached_property
    def default(self) -> Workload:
        """The workload that is measured by default; the first if there are several."""
        return self.suite(DEFAULT_SUITE).workloads[0]

    def workload(self, sizes: Shape | Sizes, name: str = "") -> Workload:
        """A workload with these sizes, and the defaults for the others; ShapeError if the op does not define it."""
        return self.checked(self.workloads.workload(sizes.sizes if isinstance(sizes, Shape) else sizes, name))

    def checked(self, workload: Workload) -> Workload:
        """Returns the workload if the op defines it; else raises ShapeError with the reason."""
        if reason := self._unknown_dtype(workload) or self.check(workload):
            raise ShapeError(reason, f"write {self.workloads.example}")
        return workload

    def _unknown_dtype(self, workload: Workload) -> str:
        for dtype in (spec.dtype for spec in self.tensors if isinstance(spec.dtype, DtypeOf)):
            if (size := workload.axes[dtype.axis]) not in dtype.dtypes:
                known = ", ".join(f"{each} for {name}" for each, name in dtype.dtypes.items())
                return f"{dtype.axis}={size} is not an element type: {known}"
        return ""

    def at(self, sizes: Mapping[str, int]) -> Op:
        """The op with its tensors' element types resolved by the sizes of these axes."""
        if not any(isinstance(spec.dtype, DtypeOf) for spec in self.tensors):
            return self
        inputs, outputs = (
            tuple(replace(spec, dtype=spec.dtype_at(sizes)) for spec in specs) for specs in (self.inputs, self.outputs)
        )
        return replace(self, inputs=inputs, outputs=outputs)

    def profile_named(self, name: str) -> str:
        """A profile by its name, or UnknownNameError; the first scenario's name gives the first profile."""
        known = [each.name for each in self.profiles]
        if known and name == self.scenarios[0]:
            return known[0]
        if name not in known:
            hint = f"there are: {', '.join(known)}" if known else "its inputs have one distribution"
            raise UnknownNameError(f"{self.name} has no profile {name}", hint)
        return name

    @property
    def depends_on_inputs(self) -> bool:
        """Whether kernels' times may depend on inputs: labels then name the profile, and each round has own draws."""
        return self.workloads.labels_profile

    def own_sd(self, launches: int) -> float:
        """The relative standard deviation between processes of the time of a kernel of so many launches."""
        return self.process_sd[launches > 1]

    @property
    def extremes(self) -> tuple[str, ...]:
        """The profiles between which the time of a kernel differs most if it depends on the inputs."""
        return tuple(each.name for each in self.profiles if each.extreme)

    def inputs_to_verify(self, workload: Workload) -> tuple[str, ...]:
        """The kinds of inputs that a kernel is verified on: first that timed at the workload, then all scenarios."""
        return tuple(dict.fromkeys([workload.profile or self.scenarios[0], *self.scenarios]))

    def seed_offset(self, inputs: str) -> int:
        """The offset to a run's seed for a kind of inputs, so that each kind has its own draws."""
        kinds = [*self.scenarios, *(each.name for each in self.profiles[1:])]
        return kinds.index(inputs) if inputs in kinds else 0

    def suite(self, name: str) -> Suite:
        """A suite by its name, or UnknownNameError; `default` and `verify` always exist."""
        if name not in self.suites and name in {DEFAULT_SUITE, VERIFY_SUITE}:
            return Suite(name, {self.workloads.default: 1.0}) if name == DEFAULT_SUITE else self.suite(DEFAULT_SUITE)
        if name not in self.suites:
            known = ", ".join(self.suites) or "none"
            raise UnknownNameError(f"{self.name} has no suite {name}", f"there are: {known}")
        declared = self.suites[name]
        assert not isinstance(declared, str)  # the catalog replaces a file's name by its content
        weights = declared if isinstance(declared, Mapping) else dict.fromkeys(declared, 1.0)
        try:
            return Suite(name, {self.workload(shape, shape.name): weight for shape, weight in weights.items()})
        except (ShapeError, AttributeError) as error:
            raise DeclarationError(f"the suite {name}: {error}", "name its workloads as Shape(B=8)") from error

    @property
    def suite_workloads(self) -> tuple[Workload, ...]:
        """The workloads of all of its suites."""
        return tuple(dict.fromkeys(each for name in self.suites for each in self.suite(name).workloads))

    def nearest(self, known: Iterable[Shape], wanted: Workload) -> Shape:
        """The declared shape that stands in for a workload: see `nearest_workload`."""
        complete = {self.workload(shape): shape for shape in known}
        return complete[nearest_workload(complete, wanted)]

    def named_sizes(self, workload: Workload) -> dict[str, int]:
        """Every axis and derived size of a workload, by the names that tensors' `dims` refer to."""
        return {**workload.axes, **{name: of(workload) for name, of in self.derived.items()}}

    def traffic_bytes(self, workload: Workload) -> int:
        """The least traffic to device memory in bytes."""
        return self.least_bytes(workload) if self.least_bytes else self.tensor_bytes(workload)

    def tensor_bytes(self, workload: Workload) -> int:
        """The size of all inputs and outputs in bytes."""
        named = self.named_sizes(workload)
        return sum(tensor.nbytes(named) for tensor in self.tensors)

    def copy_bytes(self, workload: Workload) -> int:
        """The bytes that the copying floor moves: one tensor read, one written, or parts of them; 0 without a floor."""
        if self.copied_bytes:
            return self.copied_bytes(workload)
        named, moved = self.named_sizes(workload), self.copy if isinstance(self.copy, tuple) else ()
        return sum(tensor.nbytes(named) for tensor in self.tensors if tensor.name in moved)

    def _check_names(self) -> None:
        names = [*(tensor.name for tensor in self.tensors), *self.scalars, *self.workloads.names, *self.derived]
        if twice := {name for name in names if names.count(name) > 1}:
            raise DeclarationError(f"{', '.join(sorted(twice))}: an axis, tensor, scalar or size is there twice")
        if not (self.inputs and self.outputs and self.scenarios):
            raise DeclarationError("an op has inputs, outputs and at least one scenario")

    def _check_profiles(self, names: tuple[str, ...]) -> None:
        if twice := {name for name in names if names.count(name) > 1 or name in self.scenarios}:
            raise DeclarationError(f"{', '.join(sorted(twice))}: a scenario or profile of this name is there twice")
        if self.profile and self.profile not in names:
            raise DeclarationError(f"profile {self.profile!r}: not a profile of the op")
        inputs = [tensor.name for tensor in self.inputs]
        if unknown := [name for group in self.drawn_together for name in group if name not in inputs]:
            raise DeclarationError(f"drawn_together: {', '.join(unknown)}: not an input")
        lists = [each.name for each in self.workloads.lists]
        if strange := [each for each in self.ends.items() if each[0] not in lists or each[1] not in inputs]:
            raise DeclarationError(f"ends: {strange[0]}: not a list with an input")
        if unknown := [name for name in self.alike if name not in {axis.name for axis in self.workloads.axes}]:
            raise DeclarationError(f"alike: {', '.join(unknown)}: not an axis")

    def _check_tensors(self) -> None:
        default = self.workloads.default
        axes = {each.name: each.dtype.axis for each in self.tensors if isinstance(each.dtype, DtypeOf)}
        if strange := [each for each in axes.items() if each[1] not in default.compile_time]:
            raise DeclarationError("{}: {} is not an axis that kernels are compiled for".format(*strange[0]))
        if reason := self._unknown_dtype(default) or self.check(default):
            raise DeclarationError(f"the default workload, {default}: {reason}")
        named = self.named_sizes(default)
        if wrong := [name for name, size in named.items() if not isinstance(size, int)]:
            raise DeclarationError(f"derived {', '.join(wrong)}: a size is a whole number")
        for tensor in self.tensors:
            if unknown := [dim for dim in tensor.dims if isinstance(dim, str) and dim not in named]:
                raise DeclarationError(f"{tensor.name}: {', '.join(unknown)} is neither an axis nor a derived size")
        outputs = {tensor.name: tensor for tensor in self.outputs}
        for gate in self.gates:
            if gate.tensor not in outputs:
                raise DeclarationError(f"a gate is on {gate.tensor}, which is not an output")
            for dtype in outputs[gate.tensor].dtypes:
                if isinstance(gate, UlpGate | RoundoffGate) and not FACTS[dtype].significand_bits:
                    raise DeclarationError(f"{gate.tensor}: {dtype} has no ulp; take an ExactGate")
            if isinstance(gate, RoundoffGate):
                self._check_roundoff(gate)
        if ungated := outputs.keys() - {gate.tensor for gate in self.gates}:
            raise DeclarationError(f"{', '.join(sorted(ungated))}: no gate is on it, so wrong numbers would pass")
        if odd := {*self.flops(default), *self.instead, *self.instead.values()} - set(get_args(Precision)):
            known = ", ".join(get_args(Precision))
            raise DeclarationError(f"flops: unknown precision {', '.join(odd)}; known: {known}")
        self._check_copy(named)

    def _check_roundoff(self, gate: RoundoffGate) -> None:
        if not gate.limit > 0:
            raise DeclarationError(f"{gate.tensor}: a limit of {gate.limit!r} roundoffs lets nothing pass")
        rounding = [name for name, facts in FACTS.items() if facts.significand_bits]
        if gate.arithmetic not in rounding:
            raise DeclarationError(f"{gate.tensor}: arithmetic {gate.arithmetic!r} is not one of {', '.join(rounding)}")

    def _check_copy(self, named: Mapping[str, int]) -> None:
        if self.copy is None:
            return
        if callable(self.copy):
            if self.copied_bytes is None:
                raise DeclarationError("copy is a function: say by `copied_bytes` how much the floor moves")
            return
        sizes = {tensor.name: (tensor.sizes(named), tensor.dtype) for tensor in self.tensors}
        if len(self.copy) != 2 or not set(self.copy) <= sizes.keys() or len({sizes[name] for name in self.copy}) > 1:
            raise DeclarationError(f"copy {self.copy}: an input and an output of the same sizes and dtype")
