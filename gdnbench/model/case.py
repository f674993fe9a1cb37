"""What one run measures: variants of kernels at workloads, each in a role, and the codes and arguments of cases.

Shortened lists in labels and file names, such as `lengths=15n-4124-0c1f2e3d` (see `axes.short_list`), are expanded
here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.declaration import Params, TensorExtent
from gdnbench.model.kernel import MAP_BYTES, CutileKernel, TensorMap
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload, short_list, write_list
from gdnbench.origin import SOURCE_HASHES, bundled_kernels

Passed = str | TensorMap | TensorExtent
"""An argument as a launch passes it."""

STRIDE = "_stride"
"""Behind a tensor's name, in that of the argument with the elements from one of its members to the next."""

if TYPE_CHECKING:
    from gdnbench.model.kernel import CudaLaunch, Kernel
    from gdnbench.model.op import Op
    from gdnbench.model.workload_spec import WorkloadSpec


@dataclass(frozen=True)
class Variant:
    """A kernel with its params fixed; its label is as in tables and for `--kernel`: `decode-triton:BV=16`."""

    kernel: str
    label: str
    preset: str = ""
    params: Params = field(default_factory=Params)

    @property
    def is_picked(self) -> bool:
        """Whether a dispatcher picked it: its label is then the dispatcher's name, which takes no params."""
        return ":" not in self.label and self.label not in {self.kernel, self.preset}

    @property
    def is_of_revision(self) -> bool:
        """Whether it is a kernel of a git revision, `decode-v4@0a1b2c3d`, which no verb finds by its name."""
        return "@" in self.kernel

    @property
    def in_full(self) -> str:
        """The kernel and all of its params: `decode-v4 WARPS=8`."""
        return f"{self.kernel} {self.params}".rstrip()


def key_of(case_id: str) -> str:
    """The key of a case's workload, from the case's id."""
    return case_id.rpartition("/")[2]


@dataclass(frozen=True)
class Case:
    """A variant at a workload, with its role in the run."""

    variant: Variant
    workload: Workload
    role: Role = Role.KERNEL

    @property
    def id(self) -> str:
        """The case's id, unique within a run; NVBench's benchmark names and every file of the run use it."""
        return f"{self.label}/{self.workload.key}"

    @property
    def label(self) -> str:
        """The variant's label; the control's ends with `@again`."""
        return f"{self.variant.label}@again" if self.role is Role.CONTROL else self.variant.label

    @property
    def is_bare_floor(self) -> bool:
        """Whether it is a floor by its bare name, whose params are those of its fastest form at the workload."""
        return self.role is Role.FLOOR and self.variant.label == self.variant.kernel

    def is_point_of(self, swept: Collection[str]) -> bool:
        """Whether the case is a point of a sweep over these kernels."""
        return self.variant.kernel in swept and self.role in {Role.KERNEL, Role.FLOOR, Role.ABLATION}

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON document."""
        return {
            "kernel": self.variant.kernel,
            "label": self.variant.label,
            "preset": self.variant.preset,
            "params": dict(self.variant.params),
            **self.workload.document,
            "role": self.role.value,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], spec: WorkloadSpec) -> Case:
        """The inverse of `to_dict`; ShapeError if the workload does not fit `spec`, the axes of its op."""
        variant = Variant(
            document["kernel"], document["label"], preset=document["preset"], params=Params(document["params"])
        )
        return cls(variant, spec.stored_case(document), Role(document["role"]))


def same_sources(one: str, other: str) -> bool:
    """Whether two hashes of a kernel's sources are of the same code, as `source-hashes.csv` says of two that differ."""
    return one == other or frozenset((one, other)) in _of_same_code()


@cache
def _of_same_code() -> frozenset[frozenset[str]]:
    """Reads the hashes of kernels that older runs have, by the first rule or before files moved, each with today's."""
    try:
        lines = (bundled_kernels() / SOURCE_HASHES).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(frozenset(line.split(",")[1:]) for line in lines[1:])


class CodeState(StrEnum):
    """Whether a stored time or profile belongs to the present code of a kernel, by the hash of its sources."""

    CURRENT = "current"
    CHANGED = "changed"
    UNKNOWN = "unknown"  # a hash is missing: older files have none, and a kernel may not be in this catalog

    @classmethod
    def of(cls, stored: str, now: str) -> CodeState:
        """The state, from the stored and the present hash; an unknown hash is empty."""
        if not (stored and now):
            return cls.UNKNOWN
        return cls.CURRENT if same_sources(stored, now) else cls.CHANGED

    @classmethod
    def together(cls, states: Iterable[CodeState]) -> CodeState:
        """The state of several sources together: changed if one has changed, current if all are current."""
        every = set(states)
        if cls.CHANGED in every:
            return cls.CHANGED
        return cls.CURRENT if every == {cls.CURRENT} else cls.UNKNOWN


def wide_arguments(op: Op, kernel: Kernel | None) -> tuple[str, ...]:
    """The numbers of 64 bits that a launch may take: derived sizes, and strides of tensors whose members lie apart."""
    return (*op.derived, *(f"{name}{STRIDE}" for name in (kernel.strided if kernel else ())))


def arguments_of(op: Op, kernel: Kernel, launch: CudaLaunch) -> tuple[Passed, ...]:
    """A launch's arguments in order, by name but for maps and extents; DeclarationError for an unknown name."""
    scratch = [spec.name for spec in getattr(kernel, "scratch", ())]
    inputs, outputs = [spec.name for spec in op.inputs], [spec.name for spec in op.outputs]
    run_time = [axis.name for axis in op.workloads.axes if not axis.compile_time]
    every = (*inputs, *op.scalars, *outputs, *scratch, *run_time, *wide_arguments(op, kernel))
    if launch.arguments is None:
        return _with_extents(op, kernel, every)
    tensors = {*inputs, *outputs, *scratch}
    if unknown := [
        f"a map of {each.tensor}" if isinstance(each, TensorMap) else each
        for each in launch.arguments
        if each not in every and getattr(each, "tensor", "") not in tensors
    ]:
        expected = call_of(op, kernel, launch.entry, every)
        raise DeclarationError(f"{launch.entry} takes {', '.join(unknown)}, and there is no such; expected: {expected}")
    return _with_extents(op, kernel, launch.arguments)


def _with_extents(op: Op, kernel: Kernel, names: tuple[str | TensorMap, ...]) -> tuple[Passed, ...]:
    """The arguments of a kernel in cuTile, which takes a tensor's sizes and strides behind it; else what is given."""
    if not isinstance(kernel, CutileKernel):
        return names
    axes = {spec.name: range(len(spec.dims)) for spec in (*op.tensors, *kernel.scratch)}

    def passed(name: str | TensorMap) -> Iterator[Passed]:
        yield name
        yield from (TensorExtent(str(name), axis, way) for way in (False, True) for axis in axes.get(str(name), ()))

    return tuple(each for name in names for each in passed(name))


def call_of(op: Op, kernel: Kernel | None, function: str, names: Iterable[Passed]) -> str:
    """How a function takes arguments: `scale(x: fp32[M, N], factor: float, M: int)`; other names are constants."""
    tensors = (*op.tensors, *getattr(kernel, "scratch", ()))
    kinds = {spec.name: f"{'/'.join(spec.dtypes)}[{', '.join(map(str, spec.dims))}]" for spec in tensors}
    kinds |= dict.fromkeys(op.scalars, "float") | dict.fromkeys(wide_arguments(op, kernel), "long long")
    kinds |= {axis.name: "int" for axis in op.workloads.axes if not axis.compile_time}
    typed = (
        f"{each.tensor}: TensorMap" if isinstance(each, TensorMap) else f"{each}: {kinds.get(each, 'constexpr')}"
        for each in names
        if not isinstance(each, TensorExtent)
    )
    return f"{function}({', '.join(typed)})"


def check_arguments(op: Op, kernel: Kernel, launch: CudaLaunch, sizes: Sequence[int]) -> None:
    """Raises DeclarationError unless a function of such parameters takes what its launch passes: CUDA does not."""
    arguments = arguments_of(op, kernel, launch)
    numbers = {*op.scalars, *(axis.name for axis in op.workloads.axes)}
    # A tensor is a pointer.
    passed = [
        MAP_BYTES if isinstance(each, TensorMap) else 4 if isinstance(each, TensorExtent) or each in numbers else 8
        for each in arguments
    ]
    if list(sizes) != passed:
        takes, passes = f"{len(sizes)} parameters", str(len(passed))
        if len(sizes) == len(passed):
            takes, passes = (", ".join(map(str, each)) for each in (sizes, passed))
            takes = f"parameters of {takes} bytes"
        message = f"{launch.entry} takes {takes}, and its launch gives {passes}"
        expected = call_of(op, kernel, launch.entry, arguments)
        raise DeclarationError(f"{message}; expected: {expected}", "see `arguments` of the launch in variant.py")


_SHORTENED = re.compile(r"(?<![\w-])\d+n-\d+-[0-9a-f]{8}(?![\w-])")


def explain_short_lists(workloads: Iterable[Workload]) -> str:
    """Explains the first shortened list in the labels of workloads; empty if none is shortened."""
    for workload in workloads:
        for name, sizes in workload.lists.items():
            if (short := short_list(sizes)) != write_list(sizes):
                meaning = f"{len(sizes)} {name}, {sum(sizes):,} in all, and a hash of them"
                return f"{name}={short}: {meaning}; measurements.csv has them in full"
    return ""


def has_short_lists(text: str) -> bool:
    """Whether a text, as `--shape` takes it, has a shortened list."""
    return bool(_SHORTENED.search(text))


def write_in_full(text: str, workloads: Iterable[Workload]) -> str:
    """A text for `--shape` with each shortened list in full; UsageError for one that no workload has."""
    known = {short_list(sizes): write_list(sizes) for workload in workloads for sizes in workload.lists.values()}

    def full(shortened: re.Match[str]) -> str:
        if shortened[0] not in known:
            raise UsageError(
                f"{shortened[0]} stands for a list that no suite of the op has",
                "it is a count, a sum and a hash: a run's measurements.csv has the list in full, to be given instead",
            )
        return known[shortened[0]]

    return _SHORTENED.sub(full, text)
