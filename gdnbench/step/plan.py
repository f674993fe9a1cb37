"""What a step measures: every kernel at every workload, by every path, in every condition of the L2."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.catalog.resolve import find_op, resolve_op
from gdnbench.catalog.select import select_variants
from gdnbench.codec import convert
from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.measuring.request import parse_near_default
from gdnbench.model.case import Case
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.workload import WorkloadSpec
from gdnbench.wording import did_you_mean

MOST_LAYERS = 512  # a launch queue is 1024 deep
MOST_BETWEEN_MIB = 1024.0
STEP_LIMIT_S = 120.0
WAITS = ("griddepcontrol.wait", "cudaGridDependencySynchronize", "gdc_wait")
"""What opts a kernel in to programmatic dependent launch: one of these in its source."""
WALK = "_walk"
"""Ends the name of the function that goes over all layers, beside the entry of a kernel that has one."""


class Way(StrEnum):
    """A way to launch a chain."""

    PYTHON = "python"
    C_LOOP = "c-loop"
    GRAPH = "graph"
    GRAPH_PDL = "graph-pdl"
    PERSISTENT = "persistent"


class L2(StrEnum):
    """What the L2 holds when a step begins."""

    RESIDENT = "resident"
    EVICTED = "evicted"
    PERSISTING = "persisting"


class Quantity(StrEnum):
    """What is measured of a chain, microseconds a layer."""

    STEP = "step"
    """From an event before the chain to one after it, on a stream that was idle: the host is part of it."""
    QUEUED = "queued"
    """The same, of a chain that was enqueued whole before the GPU began with it."""
    HOST = "host"
    """What the host takes to enqueue the chain on an idle stream."""
    KERNELS = "kernels"
    """The sum of the kernels' own times, each from its first block's start to its last block's end, by CUPTI."""


@dataclass(frozen=True)
class StepCase:
    """One thing that is timed.

    Attributes:
        case: the kernel, its params and the workload.
        path: how the chain is launched.
        l2: what the L2 holds when a step begins.
        is_again: whether it is the baseline a second time.
        refusal: why it cannot be measured, where that is known beforehand; empty if it can.
    """

    case: Case
    path: Way
    l2: L2
    is_again: bool = False
    refusal: str = ""

    @property
    def id(self) -> str:
        """Unique within a run."""
        return f"{self.case.id}/{self.path}/{self.l2}{'@again' if self.is_again else ''}"

    @property
    def group(self) -> str:
        """What it is compared within: the cases at one workload, in one condition of the L2."""
        return f"{self.case.workload.key}/{self.l2}"

    def of(self, quantity: Quantity) -> str:
        """The name of one of its quantities among the samples."""
        return f"{self.id}|{quantity}"


@dataclass(frozen=True)
class StepSettings:
    """How a step is measured.

    Attributes:
        layers: launches of the op in a chain, each with tensors of its own.
        between_mib: what is read between two layers, standing for the weights, MiB.
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
        """With a fresh seed, and as many processes as there are rounds for, unless they are given."""
        return cls(
            seed=secrets.randbelow(2**31) if seed is None else seed,
            processes=min(cls.processes, max(rounds, 1)) if processes is None else processes,
            rounds=rounds,
            **others,
        )


@dataclass(frozen=True)
class StepTask:
    """One worker's work.

    Attributes:
        roots: the catalog's folders.
        op: the op's name; empty where launches alone are measured.
        cases: what is measured.
        settings: how.
        order: ids by round; the first round is burn-in.
        first_round: number of the round after the burn-in.
    """

    roots: tuple[str, ...]
    op: str
    cases: tuple[StepCase, ...]
    settings: StepSettings
    order: tuple[tuple[str, ...], ...]
    first_round: int = 1

    def write(self, path: Path) -> None:
        """Writes the task for a worker to read."""
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
    """What `--path` or `--l2` names, in the order of their declaration; all for an empty text.

    Raises:
        UnknownNameError: for a name that is none.
    """
    known = [each.value for each in kind]
    names = [name.strip() for name in text.split(",")] if text else known
    for name in names:
        if name not in known:
            raise UnknownNameError(
                f"{option} {name!r} is none", did_you_mean(name, known, f"there are {', '.join(known)}")
            )
    return tuple(each for each in kind if each.value in names)


def opts_in(entry: Entry) -> bool:
    """Whether a kernel's source waits for the launch before it where that matters: see `WAITS`."""
    try:
        text = entry.source.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return any(word in text for word in WAITS)


def walk_of(entry: Entry) -> str:
    """The function of a kernel that goes over all layers in one launch; empty where it has none."""
    if not isinstance(entry.kernel, CudaKernel) or len(entry.kernel.launches) != 1:
        return ""
    name = entry.kernel.launches[0].entry + WALK
    try:
        return name if f"{name}(" in entry.source.read_text() else ""
    except (OSError, UnicodeDecodeError):
        return ""


def make_cases(
    cases: Sequence[Case],
    entries: Mapping[str, Entry],
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


def _refusal(each: StepCase, entry: Entry, settings: StepSettings) -> str:
    """Why a case cannot be measured, as far as that is known without a GPU."""
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


def cases_asked(catalog: Catalog, op: str, kernels: str, axes: str) -> tuple[Case, ...]:
    """Every kernel that was named at every workload that was.

    Args:
        catalog: what there is.
        op: the op whose kernels are meant; empty for that of the kernels named.
        kernels: names or globs, as `--kernel` takes them.
        axes: workloads, as `--shape` takes them; empty for the op's default.

    Raises:
        UnknownNameError: for an op, kernel or alias that does not exist.
        UsageError: for workloads or params that make no sense.
        MachineError: if a kernel needs a module that this Python lacks.
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
