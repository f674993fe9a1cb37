"""Plans a step: every kernel at every workload, by every path and way to launch, in every condition of the L2."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import parse_near_default
from gdnbench.catalog.select import resolve_op, select_variants
from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.op import Op
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.wording import did_you_mean
from gdnbench.workers.task import Task

MOST_LAYERS = 512  # a launch queue holds 1024 launches
MOST_BETWEEN_MIB = 1024.0
MOST_ROUNDS = MOST_SAMPLES = 1000
STEP_LIMIT_S = 120.0
WAITS = ("griddepcontrol.wait", "cudaGridDependencySynchronize", "gdc_wait")
"""Words in the source of a kernel that opts in to programmatic dependent launch."""
WALK = "_walk"
"""Suffix, behind the entry, of the name of a kernel's function that goes over all layers."""


class Way(StrEnum):
    """A way to launch a chain."""

    PYTHON = "python"
    C_LOOP = "c-loop"
    GRAPH = "graph"
    GRAPH_PDL = "graph-pdl"
    PERSISTENT = "persistent"


class L2(StrEnum):
    """The content of the L2 when a step begins."""

    RESIDENT = "resident"
    EVICTED = "evicted"
    PERSISTING = "persisting"


class Quantity(StrEnum):
    """A measured quantity of a chain, in µs a layer."""

    STEP = "step"
    """From an event before the chain to one after it, on an idle stream: the host's time is included."""
    QUEUED = "queued"
    """As `STEP`, but of a chain that was enqueued whole before the GPU began."""
    HOST = "host"
    """The host's time to enqueue the chain on an idle stream."""
    KERNELS = "kernels"
    """The sum of the kernels' own times, each from its first block's start to its last block's end, by CUPTI."""


@dataclass(frozen=True)
class StepCase(Case):
    """A kernel at a workload, by one path in one condition of the L2; a control is the baseline again.

    `refusal` is empty, or why it cannot be measured.
    """

    path: Way = Way.PYTHON
    l2: L2 = L2.RESIDENT
    refusal: str = ""

    @property
    def id(self) -> str:
        """Id, unique within a run."""
        return f"{super().id}/{self.path}/{self.l2}"

    @property
    def is_again(self) -> bool:
        """Whether it is the baseline a second time."""
        return self.role is Role.CONTROL

    @property
    def group(self) -> tuple[Workload, L2]:
        """The group of cases that are compared: at one workload, in one condition of the L2."""
        return self.workload, self.l2

    def of(self, quantity: Quantity) -> str:
        """The name of a quantity of the case among the samples; the step has the case's own."""
        return self.id if quantity is Quantity.STEP else f"{self.id}|{quantity}"

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON document."""
        return {**super().to_dict(), "path": self.path, "l2": self.l2, "refusal": self.refusal}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], spec: WorkloadSpec) -> StepCase:
        """The inverse of `to_dict`."""
        case = Case.from_dict(document, spec)
        way, l2 = Way(document["path"]), L2(document["l2"])
        return cls(case.variant, case.workload, case.role, way, l2, document["refusal"])


@dataclass(frozen=True)
class StepSettings:
    """How a step is measured."""

    layers: int = 36  # launches of the op in a chain, each with tensors of its own
    between_mib: float = 0.0  # MiB that are read between two layers, in place of the weights
    rounds: int = 21  # of every case, in all processes together
    samples: int = 16  # chains a round, of each of `step` and `queued`
    processes: int = 3
    seed: int = 0
    margin: float = 0.005  # relative difference that counts as none
    confidence: float = 0.95

    def __post_init__(self) -> None:
        limits = {
            "layers": (2, MOST_LAYERS),
            "between_mib": (0, MOST_BETWEEN_MIB),
            "rounds": (2, MOST_ROUNDS),  # an interval needs two
            "samples": (1, MOST_SAMPLES),
            "processes": (1, self.rounds),  # each measures a round at least
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not least <= value <= most:
                message = f"--{name.removesuffix('_mib')} {value:g}: it takes {least} to {most:g}"
                raise UsageError(message, f"the default is {getattr(StepSettings, name):g}")

    @classmethod
    def chosen(cls, *, seed: int | None, processes: int | None, rounds: int, **others: Any) -> StepSettings:
        """Settings with a fresh seed unless given, and at most as many processes as rounds."""
        return cls(
            seed=secrets.randbelow(2**31) if seed is None else seed,
            processes=min(cls.processes, max(rounds, 1)) if processes is None else processes,
            rounds=rounds,
            **others,
        )


@dataclass(frozen=True)
class StepPlan:
    """What is measured."""

    catalog: Catalog
    op: Op
    gpu: Gpu
    cases: tuple[StepCase, ...]
    settings: StepSettings
    command: str = ""
    label: str = ""


@dataclass(frozen=True)
class StepTask(Task):
    """One worker's work."""

    cases: tuple[StepCase, ...]
    layers: int = 0
    between_mib: float = 0.0
    case_kind: ClassVar[type[Case]] = StepCase


def parse_names(kind: type[StrEnum], text: str, option: str) -> tuple[Any, ...]:
    """Parses `--path` or `--l2`, in the order of declaration; empty means all. Raises UnknownNameError."""
    known = [each.value for each in kind]
    names = [name.strip() for name in text.split(",")] if text else known
    for name in names:
        if name not in known:
            raise UnknownNameError(
                f"{option} {name!r} is none", did_you_mean(name, known, f"there are {', '.join(known)}")
            )
    return tuple(each for each in kind if each.value in names)


def walk_of(entry: CatalogEntry) -> str:
    """The name of a kernel's function that goes over all layers in one launch; empty if there is none."""
    if not isinstance(entry.kernel, CudaKernel) or len(entry.kernel.launches) != 1:
        return ""
    name = entry.kernel.launches[0].entry + WALK
    return name if f"{name}(" in _source(entry) else ""


def _source(entry: CatalogEntry) -> str:
    try:
        return entry.source.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def make_cases(
    cases: Sequence[Case],
    entries: Mapping[str, CatalogEntry],
    paths: Sequence[Way],
    conditions: Sequence[L2],
    settings: StepSettings,
) -> tuple[StepCase, ...]:
    """Every case by every path in every condition; at each workload and condition the first one twice."""
    every = [
        StepCase(case.variant, case.workload, path=path, l2=l2) for case in cases for l2 in conditions for path in paths
    ]
    made = [replace(each, refusal=_refusal(each, entries[each.variant.kernel], settings)) for each in every]
    first: dict[tuple[Workload, L2], StepCase] = {}
    for each in made:
        if not each.refusal:
            first.setdefault(each.group, each)
    return (*made, *(replace(each, role=Role.CONTROL) for each in first.values()))


def _refusal(each: StepCase, entry: CatalogEntry, settings: StepSettings) -> str:
    if each.l2 is L2.PERSISTING and entry.op.copy is None:
        return f"{entry.op.name} does not say which tensor is its state (`copy`)"
    if each.l2 is L2.PERSISTING and each.path in {Way.PYTHON, Way.PERSISTENT}:
        return "a window of its own for each layer is an attribute of a launch, which this path does not set"
    if each.path is Way.GRAPH_PDL and (reason := _early_refusal(entry)):
        return reason
    if each.path is Way.PERSISTENT and not walk_of(entry):
        return f"it has no function that goes over all layers (…{WALK})"
    if each.path is Way.PERSISTENT and settings.between_mib:
        return "nothing is read between the layers of one launch"
    return ""


def _early_refusal(entry: CatalogEntry) -> str:
    if isinstance(entry.kernel, CudaKernel) and any(launch.begins_early for launch in entry.kernel.launches):
        return "its launches begin early within a call: the first one of a layer waits for no other layer"
    waits = any(word in _source(entry) for word in WAITS)
    return "" if waits else "its source has no griddepcontrol.wait: begun early, it would read what is not written yet"


def requested_cases(catalog: Catalog, op: str, kernels: str, axes: str) -> tuple[Case, ...]:
    """Named kernels at named workloads, or by default; UnknownNameError, UsageError, MachineError."""
    name = resolve_op(catalog, op, kernels.split(","))
    workloads = parse_near_default(find_op(catalog, name), axes)
    cases = []
    for workload in workloads:
        for variant in select_variants(catalog, name, kernels):
            entry, chosen = catalog.behind(variant, workload, "")
            if need := entry.missing():
                raise MachineError(f"{variant.label} needs the module {need.module}", need.remedy)
            cases.append(Case(chosen, workload))
    return tuple(cases)
