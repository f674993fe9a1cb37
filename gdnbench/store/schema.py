"""The types of the fields and cells of stored files, each with its range.

Ranges are wider than anything that a GPU can do, and narrow enough that no value of them harms a reader: a round of
number 1e11 would be 745 GiB of empty rounds. Runs and profiles of schema 1 are of one op, with the axes `DECODE_AXES`;
runs of before ops had profiles had inputs of the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from gdnbench.model.status import Clock, Role, Status
from gdnbench.model.workload_spec import Alias, Axis, WorkloadSpec

LONGEST_US = 1e12  # twelve days, in microseconds
MOST_ROUNDS = 10_000  # a run of 41 rounds takes a minute or two; a race has some hundreds
MOST_SEED = 2**63 - 1

_NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f]*$"

TextLine = Annotated[str, Meta(max_length=10_000, pattern=_NO_CONTROLS)]  # text in one line, without control characters

Name = Annotated[str, Meta(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f/]+$")]
"""What is a part of a path or of a case's id: a line without a slash."""

MaybeName = Annotated[str, Meta(max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f/]*$")]

Timestamp = Annotated[str, Meta(max_length=40, pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")]  # ISO 8601

Count = Annotated[int, Meta(ge=0, le=2**53)]
AxisSize = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SmallCount = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Meta(ge=0, le=MOST_SEED)]
RoundNumber = Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
Microseconds = Annotated[float, Meta(gt=0, le=LONGEST_US)]
LowEnd = Annotated[float, Meta(lt=LONGEST_US)]  # of an interval; minus infinity where there is none
HighEnd = Annotated[float, Meta(gt=0)]  # of an interval; infinity where there is none

Positive = Annotated[float, Meta(gt=0, le=1e18)]
NotNegative = Annotated[float, Meta(ge=0, le=1e18)]
Share = Annotated[float, Meta(ge=0, lt=1)]
ParamCell = Annotated[int, Meta(ge=-(2**62), le=2**62)] | Annotated[str, Meta(max_length=100, pattern=_NO_CONTROLS)]
ParamName = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=100)]
ParamValues = dict[ParamName, ParamCell]
Fact = int | float | str | bool | None  # what JSON can say in one word


SizesDocument = dict[Name, AxisSize | Annotated[list[SmallCount], Meta(min_length=1)]]
"""A workload's axes and lists, by name."""


class CaseDocument(TypedDict):
    """A case, as `Case.to_dict` gives it; `profile` is left out where it is the op's first."""

    kernel: Name
    label: Name
    preset: MaybeName
    params: ParamValues
    shape: SizesDocument
    role: Role
    workload: NotRequired[TextLine]
    profile: NotRequired[Name]


class WorkloadDocument(TypedDict):
    """A workload of a suite."""

    shape: SizesDocument
    weight: Positive
    name: NotRequired[TextLine]
    profile: NotRequired[Name]


class SuiteDocument(TypedDict):
    """The suite that a run measured, as the op declared it then."""

    name: Name
    workloads: Annotated[list[WorkloadDocument], Meta(min_length=1)]


class InputsDocument(TypedDict):
    """A file of captured inputs: the profile that stands for it, where it lay, and its hash."""

    profile: Name
    path: TextLine
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class SettingsDocument(TypedDict):
    """How a run was measured; the first runs have no more than the first six."""

    rounds: Annotated[int, Meta(ge=2, le=MOST_ROUNDS)]
    samples: Annotated[int, Meta(ge=1, le=2**53)]
    margin: Share
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    seed: NotRequired[Seed]
    step_limit_s: NotRequired[Positive]
    plain: NotRequired[bool]
    budget_s: NotRequired[Positive | None]
    clocks: NotRequired[tuple[Clock, ...]]
    until_clear: NotRequired[bool]
    trim: NotRequired[Annotated[float, Meta(ge=0, lt=0.5)]]


class CalibrationDocument(TypedDict):
    """What a calibration found of the machine that a run was measured on: `Calibration.summary`."""

    timestamp: Timestamp
    runs: SmallCount
    comparisons: SmallCount
    claims: SmallCount
    smallest_found: NotNegative | None


class GpuDocument(TypedDict, total=False):
    """The GPU, and those of its settings that change its speed; null is what the driver did not tell."""

    index: Count
    name: TextLine
    uuid: TextLine
    capability: tuple[Count, Count]
    sms: Count
    l2_bytes: Count
    memory_bytes: Count
    memory_mhz: Count | None
    sm_max_mhz: Count | None
    power_limit_w: NotNegative | None
    ecc: bool | None
    mig: bool | None
    persistence: bool | None
    compute_mode: TextLine | None
    driver: TextLine | None
    cuda_driver: TextLine | None


class MachineDocument(TypedDict, total=False):
    """Where a run was measured; no `gpu` on the CPU, a `target` if it was started from another machine."""

    target: TextLine
    host: dict[str, Fact]
    gpu: GpuDocument | None
    versions: dict[str, TextLine | None]
    environment: dict[str, str]


class GitDocument(TypedDict, total=False):
    """The checkout that a run was measured from; null is what git did not tell."""

    commit: TextLine | None
    branch: TextLine | None
    dirty: bool | None


AnyFloat = float | Literal["inf", "nan", "-inf"]  # what is not finite is its name, for JSON has no number for it


class WrongDocument(TypedDict):
    """The elements that a gate refuses."""

    count: Count
    of: Count
    got: AnyFloat | None
    expected: AnyFloat | None
    spread: str


class GateDocument(TypedDict):
    """What a gate found; the first runs do not tell which elements are wrong."""

    gate: str
    scenario: str
    worst: AnyFloat
    limit: float
    where: str
    status: Status
    wrong: NotRequired[WrongDocument | None]


class LargestErrorDocument(TypedDict):
    """A kernel's largest error by a gate that it passed, in the unit of the limit, with the workload and the inputs."""

    worst: float
    limit: float
    case: str
    scenario: str


class ContestDocument(TypedDict):
    """A kernel by the contest's tolerance: the cases held against it, its largest error, and those that fail."""

    tolerance: Positive
    count: Count
    worst: AnyFloat
    case: str
    failed: list[str]


class PassedGateDocument(TypedDict):
    """How often a gate was passed, and its largest error with the case and the kind of inputs that it is of."""

    count: Count
    worst: float
    limit: float
    case: str
    scenario: str


DECODE_AXES = WorkloadSpec(
    axes=(
        Axis("B", default=1, doc="batch size"),
        Axis("HQ", default=4, compile_time=True),
        Axis("HV", default=8, compile_time=True),
        Axis("K", default=128, compile_time=True, terse=True),
        Axis("V", default=128, compile_time=True, terse=True),
    ),
    aliases=(Alias("heads", "qk{HQ}_v{HV}"),),
    size=("B", "HV"),
)

_PROFILES = {"prefill": ("forgetful", "mixed-heads")}
"""Of ops that had runs without profiles and time another profile than the first by default: both, the first first."""


def with_profiles(op: str, stored: WorkloadSpec) -> WorkloadSpec:
    """A run's axes, with the profiles that its op has had since, if the run stored none."""
    if stored.profiles or op not in _PROFILES:
        return stored
    profiles = _PROFILES[op]
    return replace(stored, profiles=profiles, profile=profiles[-1])
