"""The figures to compare: times, each with its workload and its source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gdnbench.model.declaration import Params, ParamValue
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.stats import FloatArray
from gdnbench.store.settings import INTERQUARTILE

UNRECORDED_TRIM = f"{INTERQUARTILE:.0%}"  # what runs that do not record it left out at either end of a round's samples


class SourceKind(StrEnum):
    """Who measured a source's numbers."""

    MEASURED = "measured"  # a run of gdnbench
    PUBLISHED = "published"  # figures that others published, as they published them


ProcessNumbers: TypeAlias = npt.NDArray[np.int64]
"""The process of each round, shape (rounds,); of shape (0,) where a run had one, or it is unknown."""


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """A case's kernel time by CUPTI, without launch, microseconds; rounds and processes are as in `Figure`."""

    time_us: float
    rounds_us: FloatArray = field(default_factory=lambda: np.empty(0), compare=False)
    processes: ProcessNumbers = field(default_factory=lambda: np.empty(0, dtype=np.int64), compare=False)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The time of one kernel at one workload, as one source gives it; rounds are NaN where one is missing."""

    op: str
    kernel: str
    label: str  # the variant's label. The baseline's second measurement, the control, is not a figure
    workload: Workload
    timer: str  # `nvbench`, `cpu`, `cupti`, …; empty if unknown
    time_us: float  # microseconds; NaN without a time, and then `status` and `reason` say why
    params: Params = field(default_factory=Params)
    role: Role = Role.KERNEL
    low_us: float = float("nan")  # lower end of its interval, NaN if unknown; `high_us` is the upper
    high_us: float = float("nan")
    rounds_us: FloatArray = field(default_factory=lambda: np.empty(0), compare=False)
    processes: ProcessNumbers = field(default_factory=lambda: np.empty(0, dtype=np.int64), compare=False)
    kernel_time: KernelTime | None = None  # None where it was not measured
    launches: int = 0  # kernels that one call launches; 0 where not counted
    nbytes: int = 0  # the least that it must move; 0 if unknown
    status: Status = Status.OK
    reason: str = ""
    source_hash: str = ""
    tuned: str = ""  # what tuners chose for it, in one process or another; empty if nothing is tuned, or it is unknown
    citation: str = ""  # for a published figure, where it was published and when

    @property
    def has_time(self) -> bool:
        """Whether it has a time, of whatever status."""
        return math.isfinite(self.time_us)

    @property
    def has_rounds(self) -> bool:
        """Whether it has a time of some round."""
        return bool(np.isfinite(self.rounds_us).any())

    def by_kernel_time(self) -> Figure | None:
        """Returns the figure with its kernel time as its time, or None if that was not measured."""
        kernel = self.kernel_time
        if kernel is None:
            return None
        changed: dict[str, Any] = {**vars(kernel), "low_us": math.nan, "high_us": math.nan, "kernel_time": None}
        return replace(self, timer="cupti", **changed)

    @property
    def is_bare_floor(self) -> bool:
        """Whether it is a floor by its bare name, which each run measures in the form that is fastest there."""
        return self.role is Role.FLOOR and self.label == self.kernel

    def is_tuned_otherwise(self, other: Figure) -> bool:
        """Whether a tuner chose other code than for the other figure, or may have: older runs do not tell."""
        return self.tuned != other.tuned


@dataclass(frozen=True, kw_only=True)
class FigureSource:
    """One set of figures that a user can name.

    `noise` is, by workload, how far apart two measurements of the baseline lay in the run: the farther end of the
    interval of their log-ratio. `conditions` is what else may explain a difference: `driver`, `triton`, `commit`, ….
    """

    name: str  # the heading of its column: a run's id, `published/b200`
    kind: SourceKind
    gpu: str  # short name, `h200`; `cpu` for a run on the CPU, empty if unknown
    figures: tuple[Figure, ...]
    controls: tuple[Figure, ...] = ()  # the baseline's second measurements, which are not figures of their own
    noise: Mapping[Workload, float] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def by_kernel_time(self) -> FigureSource:
        """The source with kernel times; figures that have none are left out."""
        return replace(self, figures=tuple(each for figure in self.figures if (each := figure.by_kernel_time())))

    def with_axes_of(self, op: str, axes: WorkloadSpec) -> FigureSource:
        """The source with an op's figures at workloads of these axes: axes that a figure lacks have their defaults."""
        completed = {figure.workload: axes.completed(figure.workload) for figure in self.figures if figure.op == op}
        figures = (replace(each, workload=completed[each.workload]) if each.op == op else each for each in self.figures)
        noise = {completed.get(workload, workload): noise for workload, noise in self.noise.items()}
        return replace(self, figures=tuple(figures), noise=noise)

    @property
    def trim(self) -> str:
        """What the mean of a round leaves out at either end of its samples, as `5%`."""
        return self.conditions.get("trim", UNRECORDED_TRIM)

    @property
    def is_measured(self) -> bool:
        """Whether it is a run of gdnbench, so that its figures have rounds and conditions."""
        return self.kind is SourceKind.MEASURED


def join_label(kernel: str, params: Mapping[str, ParamValue]) -> str:
    """The label of a kernel with params set by hand: `decode-triton` with BV=16 is `decode-triton:BV=16`."""
    return ":".join((kernel, *(f"{name}={value}" for name, value in params.items())))


SHAPE, PROFILE = "shape", "profile"


@dataclass(frozen=True)
class WorkloadKeys:
    """The keys of workloads for `--rows`, `--cols` and `--filter`; `specs` are the axes of every op, each once."""

    specs: tuple[WorkloadSpec, ...]

    @classmethod
    def of(cls, workloads: Iterable[Workload]) -> WorkloadKeys:
        """The keys of some workloads."""
        return cls(tuple(dict.fromkeys(workload.spec for workload in workloads)))

    @property
    def names(self) -> tuple[str, ...]:
        """The workload itself, aliases, axes and lists, and the profile where an op has several."""
        aliases = [alias.name for spec in self.specs for alias in spec.aliases]
        profile = [PROFILE] if any(len(spec.profiles) > 1 for spec in self.specs) else []
        return tuple(dict.fromkeys([SHAPE, *aliases, *(name for spec in self.specs for name in spec.names), *profile]))

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys that together stand for the workload where a part of it is a row or column of its own."""
        covered = {axis for spec in self.specs for alias in spec.aliases for axis in alias.axes}
        return tuple(name for name in self.names if name != SHAPE and name not in covered)

    def fixed_by(self, key: str) -> tuple[str, ...]:
        """The keys whose values vary with those of `key`, itself included; empty for a key that is not a workload's."""
        if key == SHAPE:
            return self.names
        axes = (axis for spec in self.specs for alias in spec.aliases if alias.name == key for axis in alias.axes)
        return tuple(dict.fromkeys([key, *axes])) if key in self.names else ()


def workload_value(workload: Workload, key: str) -> str:
    """The value of a workload for one of its keys; empty if its op lacks the key."""
    if key == SHAPE:
        return str(workload)
    if key == PROFILE:
        return workload.inputs
    return workload.aliases.get(key) or str(workload.cells.get(key, ""))


def differing_parts(one: Workload, other: Workload) -> tuple[str, str]:
    """The differing parts of two workloads, as each has them: `B=1`, `B=8`; axes with an alias as that, `qk4_v8`."""
    covered = {axis for alias in one.spec.aliases for axis in alias.axes}
    parts = [(text, other.aliases.get(name, "")) for name, text in one.aliases.items()]
    cells = [(axis, size) for axis, size in one.cells.items() if axis not in covered]
    parts += [(f"{axis}={size}", f"{axis}={other.cells.get(axis, '')}") for axis, size in cells]
    differing = [pair for pair in parts if pair[0] != pair[1]]
    return " ".join(left for left, _ in differing), " ".join(right for _, right in differing)
