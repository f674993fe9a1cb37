"""`run.json`: what a run was, where it ran, and what qualifies it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gdnbench.codec import SchemaError, convert, decode_json, finite
from gdnbench.errors import DeclarationError, RunFormatError, ShapeError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import CPU
from gdnbench.model.op import Suite
from gdnbench.model.status import GateResult, InvarianceResult
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.store.files import DAMAGED, decode_file, read_document, read_file, write_document
from gdnbench.store.schema import (
    DECODE_AXES,
    CalibrationDocument,
    CaseDocument,
    ContestDocument,
    GateDocument,
    GitDocument,
    InputsDocument,
    LargestErrorDocument,
    MachineDocument,
    MaybeName,
    Name,
    ParamName,
    PassedGateDocument,
    SettingsDocument,
    SuiteDocument,
    TextLine,
    Timestamp,
    with_profiles,
)

SCHEMA_VERSION = 2
READABLE = (1, 2)
_SINCE_2 = ("workloads", "op_hash")  # fields that schema 1 lacks
_RARE = ("errors", "contest", "claims", "tuned", "inputs", "seconds")  # fields that other runs lack
INFO = "run.json"


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """One run.

    `gates` are those that a case failed, by case id; the first runs list there those that it passed, too. `errors` are,
    by label and gate, the largest of a kernel that passed it; older runs have none.
    """

    run_id: Name
    timestamp: Timestamp
    complete: bool  # whether every case and round requested is in it
    command: str
    op: Name
    gpu: Name  # the GPU's short name, `h200`; `cpu` without one
    settings: dict[str, Any]  # those that another version wrote, too
    label: str = ""
    baseline: MaybeName = ""  # the label of what others are compared with; empty if there is none
    baseline_named: bool = False  # whether the user named it among the kernels to measure
    swept: dict[Name, list[ParamName]] = field(default_factory=dict)  # for a sweep, the params that it tries, by kernel
    suite: SuiteDocument | None = None
    workloads: WorkloadSpec = DECODE_AXES  # those of `decode` in runs of schema 1
    op_hash: str = ""  # hash of what the op says of inputs, gates and costs; empty in runs of schema 1
    cases: list[CaseDocument] = field(default_factory=list)
    machine: MachineDocument = field(default_factory=MachineDocument)
    git: GitDocument = field(default_factory=GitDocument)
    sources: dict[Name, TextLine] = field(default_factory=dict)  # hashes, of dispatchers' tables, too
    gates: dict[str, list[GateDocument]] = field(default_factory=dict)
    gates_passed: dict[str, PassedGateDocument] = field(default_factory=dict)  # by gate; none in the first runs
    errors: dict[Name, dict[str, LargestErrorDocument]] = field(default_factory=dict)
    contest: dict[Name, ContestDocument] = field(default_factory=dict)  # by label; none in older runs
    claims: dict[Name, dict[Name, bool]] = field(default_factory=dict)  # by label and kind: whether it held everywhere
    calibration: CalibrationDocument | None = None
    tuned: dict[str, list[str]] = field(default_factory=dict)  # by case id, each choice of a process once
    inputs: list[InputsDocument] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[Name, float] = field(default_factory=dict)  # by phase, and `all`; none in older runs
    schema: int = SCHEMA_VERSION

    @property
    def on_gpu(self) -> bool:
        """Whether times are a GPU's."""
        return self.gpu != CPU

    @property
    def device(self) -> str:
        """The driver's name of its GPU, `NVIDIA H200`; `the CPU` without one."""
        gpu = self.machine.get("gpu") or {}
        return str(gpu.get("name") or (self.gpu if self.on_gpu else "the CPU"))

    @property
    def place(self) -> str:
        """The card and host that its times are of, as far as stored: `card GPU-92c949af, host vm`."""
        card = str((self.machine.get("gpu") or {}).get("uuid") or "")
        host = str(self.machine.get("host", {}).get("hostname") or "")
        parts = (("card", "-".join(card.split("-")[:2])), ("host", host))
        return ", ".join(f"{name} {text}" for name, text in parts if text)

    def __post_init__(self) -> None:
        convert({"settings": self.settings}, _WithSettings)  # by value: one that is not known here must not be lost


def info_document(info: RunInfo) -> dict[str, Any]:
    """A run's description as its schema has it, less what only some runs have."""
    rare = ("baseline_named", "calibration", *_RARE)
    left_out = {*(_SINCE_2 if info.schema == 1 else ()), *(name for name in rare if not getattr(info, name))}
    return {name: value for name, value in _document(info).items() if name not in left_out}


def _document(info: RunInfo) -> dict[str, Any]:
    document = asdict(info)
    if not info.workloads.profiles:
        del document["workloads"]["profiles"], document["workloads"]["profile"]
    return document


def case_documents(cases: Iterable[Case]) -> list[CaseDocument]:
    """Cases as `run.json` keeps them."""
    return convert([case.to_dict() for case in cases], list[CaseDocument])


def suite_document(suite: Suite) -> SuiteDocument:
    """A suite as `run.json` keeps it."""
    workloads = [
        {**workload.place, "weight": weight, **({"name": workload.name} if workload.name else {})}
        for workload, weight in suite.weights.items()
    ]
    return convert({"name": suite.name, "workloads": workloads}, SuiteDocument)


def suite_of(info: RunInfo) -> Suite | None:
    """The suite that a run measured, with the weights that it had then."""
    if info.suite is None:
        return None
    weights = {
        info.workloads.stored(each["shape"], each.get("name", ""), each.get("profile", "")): each["weight"]
        for each in info.suite["workloads"]
    }
    return Suite(info.suite["name"], weights)


def workload_titles(info: RunInfo) -> dict[Workload, str]:
    """What tables call each workload of a run: its label, behind its name where a suite gives it one."""
    return {workload: workload.titled for workload in map(info.workloads.stored_case, info.cases)}


def failed_gates(results: Mapping[str, Sequence[GateResult]]) -> dict[str, list[GateDocument]]:
    """The gates that cases failed, as `run.json` keeps them, by case id; cases that failed none are left out."""
    failed = {case_id: [asdict(gate) for gate in gates if not gate.passed] for case_id, gates in results.items()}
    return convert({case_id: gates for case_id, gates in failed.items() if gates}, dict[str, list[GateDocument]])


def passed_gates(results: Mapping[str, Sequence[GateResult]]) -> dict[str, PassedGateDocument]:
    """The gates that cases passed, as `run.json` keeps them: of each gate how often, and its largest error."""
    found: dict[str, PassedGateDocument] = {}
    for case_id, gate in _passed(results, results):
        error, before = _error_of(gate, case_id), found.get(gate.gate)
        worst = max(before or error, error, key=itemgetter("worst"))
        found[gate.gate] = {**worst, "count": 1 + (before["count"] if before else 0)}
    return found


def largest_errors(
    results: Mapping[str, Sequence[GateResult]], labels: Mapping[str, str]
) -> dict[str, dict[str, LargestErrorDocument]]:
    """Of each kernel the largest error by each passed gate with a limit, from results and labels by case id."""
    found: dict[str, dict[str, LargestErrorDocument]] = {}
    for case_id, gate in _passed(results, labels):
        if gate.limit > 0:
            largest, error = found.setdefault(labels[case_id], {}), _error_of(gate, case_id)
            largest[gate.gate] = max(largest.get(gate.gate, error), error, key=itemgetter("worst"))
    return found


def _passed(results: Mapping[str, Sequence[GateResult]], cases: Iterable[str]) -> Iterator[tuple[str, GateResult]]:
    return ((case_id, gate) for case_id in cases for gate in results.get(case_id, ()) if gate.passed)


def _error_of(gate: GateResult, case_id: str) -> LargestErrorDocument:
    return {"worst": gate.worst, "limit": gate.limit, "case": case_id, "scenario": gate.scenario}


def held_claims(
    results: Mapping[str, Sequence[InvarianceResult]], labels: Mapping[str, str]
) -> dict[str, dict[str, bool]]:
    """Of each kernel and kind that it claims whether it held in every case, from results and labels by case id."""
    found: dict[str, dict[str, bool]] = {}
    for case_id, label in labels.items():
        for each in results.get(case_id, ()):
            if each.claimed and not each.skipped:
                held = found.setdefault(label, {})
                held[each.kind] = not each.differing and held.get(each.kind, True)
    return found


def write_info(folder: Path, info: RunInfo) -> None:
    """Writes `run.json`."""
    document = {name: value for name, value in _document(info).items() if value or name not in _RARE}
    write_document(folder / INFO, finite(document, named=True))


class _Versioned(TypedDict):
    schema: int


class _WithAxes(TypedDict):
    schema: int
    op: Name
    workloads: NotRequired[WorkloadSpec]


class _WithSettings(TypedDict):
    settings: SettingsDocument


def read_info(folder: Path) -> RunInfo:
    """Reads `run.json`; fields that are not known here are passed over."""
    path = folder / INFO
    text = read_file(path)
    try:
        version = decode_json(text, _Versioned)["schema"]
    except SchemaError as error:
        raise RunFormatError(
            f"{path}: {error} (this gdnbench reads {READABLE[0]} to {READABLE[-1]})", DAMAGED
        ) from error
    if version not in READABLE:
        message = f"{path} is of schema version {version}; this gdnbench reads {READABLE[0]} to {READABLE[-1]}"
        raise RunFormatError(message, "use the gdnbench that wrote it, or measure anew")
    try:
        info = decode_file(path, text, RunInfo)
        info = replace(info, workloads=with_profiles(info.op, info.workloads))
        for case in info.cases:
            info.workloads.stored_case(case)
        for workload in info.suite["workloads"] if info.suite else ():
            info.workloads.stored(workload["shape"])
    except (DeclarationError, ShapeError) as error:
        raise RunFormatError(f"{path}: {error.message}", DAMAGED) from error
    return info


def read_axes(folder: Path) -> WorkloadSpec:
    """The axes, lists and aliases of a run's op."""
    path = folder / INFO
    try:
        document = read_document(path, _WithAxes)
    except DeclarationError as error:
        raise RunFormatError(f"{path}: {error.message}", DAMAGED) from error
    return with_profiles(document["op"], document.get("workloads", DECODE_AXES))


STEP_NAME, LAUNCH_WAYS = "step.csv", "step-launches.csv"  # tables of `gdnbench step`


def is_step(folder: Path) -> bool:
    """Whether a run is of `gdnbench step`, whose settings alone have layers: its table may have been lost."""
    return (folder / STEP_NAME).is_file() or (folder / LAUNCH_WAYS).is_file() or "layers" in read_info(folder).settings


def refuse_step(folder: Path) -> None:
    """Raises UsageError for a run of `gdnbench step`, which has no times of single launches."""
    if is_step(folder):
        message = f"{folder.name} is a step: it has no times of kernels by themselves"
        raise UsageError(message, f"gdnbench show {folder.name}")
