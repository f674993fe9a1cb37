"""Plans a step: every kernel at every workload, by every path and way to launch, in every condition of the L2."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import parse_near_default
from gdnbench.catalog.select import resolve_op, select_variants
from gdnbench.codec import convert
from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.op import Op
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.wording import did_you_mean

MOST_LAYERS = 512  # a launch queue holds 1024 launches
MOST_BETWEEN_MIB = 1024.0
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
class StepCase:
    """A kernel at a workload, by one path in one condition of the L2.

    Attributes:
        is_again: whether it is the baseline a second time.
        refusal: why it cannot be measured, as far as known beforehand; empty if it can.
    """

    case: Case
    path: Way
    l2: L2
    is_again: bool = False
    refusal: str = ""

    @property
    def id(self) -> str:
        """Id, unique within a run."""
        return f"{self.case.id}/{self.path}/{self.l2}{'@again' if self.is_again else ''}"

    @property
    def group(self) -> str:
        """The group of cases that are compared: at one workload, in one condition of the L2."""
        return f"{self.case.workload.key}/{self.l2}"

    def of(self, quantity: Quantity) -> str:
        """The name of a quantity of the case among the samples."""
        return f"{self.id}|{quantity}"


@dataclass(frozen=True)
class StepSettings:
    """How a step is measured.

    Attributes:
        layers: launches of the op in a chain, each with tensors of its own.
        between_mib: MiB that are read between two layers, in place of the weights.
        rounds: of every case, in all processes together.
        samples: chains a round, of each of `step` and `queued`.
        processes: workers that share the rounds.
        seed: of inputs and order.
        margin: relative difference that counts as none.
        confidence: of every interval.
    """

    layers: int = 36
    between_mib: float = 0.0
    rounds: int = 21
    samples: int = 16
    processes: int = 3
    seed: int = 0
    margin: float = 0.005
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 2 <= self.layers <= MOST_LAYERS:
            raise UsageError(f"--layers {self.layers}: a chain has 2 to {MOST_LAYERS} layers", "the default is 36")
        if not 0 <= self.between_mib <= MOST_BETWEEN_MIB:
            raise UsageError(
                f"--between {self.between_mib:g}: 0 to {MOST_BETWEEN_MIB:g} MiB are read between two layers",
                "the default is 0",
            )
        if not 2 <= self.rounds <= 1000:
            raise UsageError(
                f"--rounds {self.rounds}: an interval needs 2 rounds, and 1000 are the most", "21 are usual"
            )
        if not 1 <= self.samples <= 1000:
            raise UsageError(f"--samples {self.samples}: a round has 1 to 1000 samples", "16 are usual")
        if not 1 <= self.processes <= self.rounds:
            raise UsageError(
                f"--processes {self.processes}: each measures one of {self.rounds} rounds at least", "3 are usual"
            )

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
    """What is measured; `op` is None, and `cases` is empty, for launches alone."""

    catalog: Catalog
    op: Op | None
    gpu: Gpu
    cases: tuple[StepCase, ...]
    settings: StepSettings
    command: str = ""
    label: str = ""


@dataclass(frozen=True)
class StepTask:
    """One worker's work; `op` is empty and there are no cases for launches alone.

    The first round of `order` is burn-in; `first_round` is the number of the next.
    """

    roots: tuple[str, ...]
    op: str
    cases: tuple[StepCase, ...]
    settings: StepSettings
    order: tuple[tuple[str, ...], ...]
    first_round: int = 1

    def write(self, path: Path) -> None:
        """Writes the task as JSON."""
        document = {
            **vars(self),
            "settings": vars(self.settings),
            "cases": [{**vars(each), "case": each.case.to_dict()} for each in self.cases],
            "workloads": to_builtins(self.cases[0].case.workload.spec) if self.cases else None,
        }
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def read(cls, path: Path) -> StepTask:
        """Reads a task."""
        document = json.loads(path.read_text())
        spec = document.pop("workloads")
        axes = convert(spec, WorkloadSpec) if spec else None
        cases = tuple(
            StepCase(
                Case.from_dict(each["case"], axes), Way(each["path"]), L2(each["l2"]), each["is_again"], each["refusal"]
            )
            for each in document["cases"]
            if axes
        )
        return cls(
            roots=tuple(document["roots"]),
            op=document["op"],
            cases=cases,
            settings=StepSettings(**document["settings"]),
            order=tuple(map(tuple, document["order"])),
            first_round=document["first_round"],
        )


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


def opts_in(entry: CatalogEntry) -> bool:
    """Whether a kernel's source opts in to programmatic dependent launch, by `WAITS`."""
    try:
        text = entry.source.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return any(word in text for word in WAITS)


def walk_of(entry: CatalogEntry) -> str:
    """The name of a kernel's function that goes over all layers in one launch; empty if there is none."""
    if not isinstance(entry.kernel, CudaKernel) or len(entry.kernel.launches) != 1:
        return ""
    name = entry.kernel.launches[0].entry + WALK
    try:
        return name if f"{name}(" in entry.source.read_text() else ""
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
    made: list[StepCase] = []
    for case in cases:
        for l2 in conditions:
            for path in paths:
                each = StepCase(case, path, l2)
                each = replace(each, refusal=_refusal(each, entries[case.variant.kernel], settings))
                made.append(each)
    seen: set[str] = set()
    for each in list(made):
        if each.group not in seen and not each.refusal:
            seen.add(each.group)
            made.append(replace(each, is_again=True))
    return tuple(made)


def _refusal(each: StepCase, entry: CatalogEntry, settings: StepSettings) -> str:
    """Returns why a case cannot be measured, as far as known without a GPU; empty if it can."""
    if each.l2 is L2.PERSISTING and entry.op.copy is None:
        return f"{entry.op.name} does not say which tensor is its state (`copy`)"
    if each.l2 is L2.PERSISTING and each.path in {Way.PYTHON, Way.PERSISTENT}:
        return "a window of its own for each layer is an attribute of a launch, which this path does not set"
    if each.path is Way.GRAPH_PDL and not opts_in(entry):
        return "its source has no griddepcontrol.wait: begun early, it would read what is not written yet"
    if each.path is Way.PERSISTENT and not walk_of(entry):
        return f"it has no function that goes over all layers (…{WALK})"
    if each.path is Way.PERSISTENT and settings.between_mib:
        return "nothing is read between the layers of one launch"
    return ""


def requested_cases(catalog: Catalog, op: str, kernels: str, axes: str) -> tuple[Case, ...]:
    """Every named kernel at every named workload; an empty `axes` is the op's default, an empty `op` the kernels' own.

    Raises UnknownNameError for an unknown op, kernel or alias, UsageError for invalid workloads or params, and
    MachineError if a kernel needs a module that is missing.
    """
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


class LaunchWay(StrEnum):
    """A way to launch an empty kernel."""

    TRITON = "triton"
    TORCH = "torch"
    CUDA_CORE = "cuda-core"
    DRIVER = "cuda-bindings"
    C_LOOP = "c-loop"
    C_LOOP_EX = "c-loop-ex"
    GRAPH = "graph"


ARGUMENTS = (10, 30)
LAUNCHES = 200
"""Number of launches in a sample."""


@dataclass(frozen=True)
class LaunchCase:
    """A way, and the empty kernel's number of arguments; 0 if it is not gdnbench's own kernel."""

    way: LaunchWay
    arguments: int

    @property
    def id(self) -> str:
        """Id, unique within a run."""
        return f"{self.way}/{self.arguments}"

    @classmethod
    def parse(cls, text: str) -> LaunchCase:
        """The inverse of `id`."""
        way, _, arguments = text.partition("/")
        return cls(LaunchWay(way), int(arguments))


def launch_cases() -> tuple[LaunchCase, ...]:
    """All cases of the measurement."""
    return tuple(
        LaunchCase(way, count) for way in LaunchWay for count in ((0,) if way is LaunchWay.TORCH else ARGUMENTS)
    )
