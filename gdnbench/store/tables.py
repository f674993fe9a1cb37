"""The smaller files of a run: `builds.csv`, `launches.csv`, `step.csv`, `step-launches.csv` and `sweep.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from gdnbench.codec import convert_cells, finite
from gdnbench.errors import RunFormatError, ShapeError
from gdnbench.model.declaration import Params
from gdnbench.model.measurement import OneForAll, Place, Plateau, Point, Sweep
from gdnbench.model.status import Status
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.store import files
from gdnbench.store.info import LAUNCH_WAYS, STEP_NAME, RunInfo, read_axes
from gdnbench.store.schema import (
    MOST_ROUNDS,
    Count,
    HighEnd,
    LowEnd,
    MaybeName,
    Name,
    NotNegative,
    ParamCell,
    ParamName,
    ParamValues,
    SizesDocument,
    TextLine,
)

BUILDS_NAME = "builds.csv"
_COUNTS = ("registers", "shared_bytes", "spill_bytes", "load_bits", "code_bytes")
_LATER = ("serialized_because",)  # a column that older files lack
_SERIES_IN_1 = "heads"  # what schema 1 calls the series

_CountOrUnknown = Annotated[int, Meta(ge=-1, le=2**53)]


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One variant compiled for one series of workloads and architecture; counts are -1 if it did not compile."""

    kernel: Name
    label: Name
    language: Name
    series: Annotated[str, Meta(max_length=500)] = ""  # of the workloads, `qk4_v8`; empty where the op has one
    launch: MaybeName = ""  # the entry of the launch, of a kernel with several; else empty
    arch: Name
    registers: _CountOrUnknown = -1  # per thread, as `spill_bytes` of local memory; `shared_bytes` is static, per block
    shared_bytes: _CountOrUnknown = -1
    spill_bytes: _CountOrUnknown = -1
    load_bits: _CountOrUnknown = -1  # width of the widest global load
    code_bytes: _CountOrUnknown = -1
    status: Literal["ok", "build-failed"] = "ok"
    reason: str = ""
    interpreter: str = ""  # verdict of an interpreter where there is no GPU; empty if none ran
    serialized_because: str = ""  # why ptxas serializes its warpgroup products (wgmma); empty where it does not

    @property
    def title(self) -> str:
        """What tables call it: of a kernel with several launches, which one."""
        return f"{self.label}/{self.launch}" if self.launch else self.label


def write_builds(folder: Path, rows: Sequence[BuildRow]) -> None:
    """Writes `builds.csv`."""
    files.write_dataclasses(folder / BUILDS_NAME, BuildRow, rows)


def build_row(info: RunInfo, row: BuildRow) -> files.Row:
    """A build as one flat row, as the run's schema has it."""
    cells = asdict(row)
    if info.schema > 1:
        return cells
    shown = {name: cell for name, cell in cells.items() if name not in {"launch", *_LATER}}
    return {_SERIES_IN_1 if name == "series" else name: cell for name, cell in shown.items()}


def read_builds(folder: Path) -> list[BuildRow]:
    """Reads `builds.csv`; no rows where there is no such file."""
    path = folder / BUILDS_NAME
    older = {"series", "launch", *_LATER}  # columns that older files lack, or call otherwise
    needed = [name for name in files.field_names(BuildRow) if name not in older]
    return files.read_rows(path, needed, _build) if path.exists() else []


def _build(cells: dict[str, str]) -> BuildRow:
    for name in _COUNTS:
        if not cells[name]:
            raise ValueError(f"{name}: empty")
    if _SERIES_IN_1 in cells:
        cells = {**cells, "series": cells[_SERIES_IN_1]}
    return convert_cells(cells, BuildRow)


LAUNCHES_NAME = "launches.csv"


@dataclass(frozen=True, kw_only=True)
class LaunchRow:
    """One function of a case, by CUPTI: the median over rounds of its mean time in one call."""

    case: str
    function: Name  # its plain name; `(fill)` and `(copy)` for what is none
    rounds: Count
    time_us: NotNegative


def write_launches(folder: Path, rows: Sequence[LaunchRow]) -> None:
    """Writes `launches.csv`, if there is anything to write."""
    if rows:
        files.write_dataclasses(folder / LAUNCHES_NAME, LaunchRow, rows)


def read_launches(folder: Path) -> list[LaunchRow]:
    """Reads `launches.csv`; no rows where there is no such file, as in older runs and in those without CUPTI."""
    return files.read_dataclasses(folder / LAUNCHES_NAME, LaunchRow)


LAUNCHES_OP = "launches"  # the op of a run of launches alone


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """A kernel at a workload, by one path, in one condition of the L2; microseconds a layer, with intervals."""

    schema: Literal[1] = 1
    run_id: Name
    gpu: Name
    op: Name
    kernel: Name
    label: Name
    params: TextLine = ""
    workload: TextLine
    path: Name  # how the chain is launched; `l2` is what the L2 holds when a step begins
    l2: Name
    is_again: Count = 0  # 1 for the baseline measured a second time, else 0
    layers: Count  # launches of the op in the chain
    between_mib: NotNegative  # what is read between two layers, MiB
    status: Status
    reason: TextLine = ""
    rounds: Count = 0
    processes: Count = 0
    step_us: float | None = None  # event to event, on a stream that was idle, the host included
    step_lo_us: LowEnd | None = None
    step_hi_us: HighEnd | None = None
    queued_us: float | None = None  # event to event, all enqueued before the GPU begins
    queued_lo_us: LowEnd | None = None
    queued_hi_us: HighEnd | None = None
    host_us: float | None = None  # what the host takes to enqueue the chain
    host_lo_us: LowEnd | None = None
    host_hi_us: HighEnd | None = None
    kernels_us: float | None = None  # the sum of the kernels' own times, by CUPTI
    kernels_lo_us: LowEnd | None = None
    kernels_hi_us: HighEnd | None = None
    gap_us: float | None = None  # `queued_us` less `kernels_us`, round by round
    gap_lo_us: float | None = None
    gap_hi_us: float | None = None
    waits_us: float | None = None  # `step_us` less `queued_us`, round by round: what the GPU waits for the host
    waits_lo_us: float | None = None
    waits_hi_us: float | None = None
    versus: TextLine = ""  # the path that it is compared with; empty for that itself
    speedup: float | None = None  # the step of that path over this one's
    speedup_lo: float | None = None
    speedup_hi: float | None = None
    verdict: TextLine = ""
    saved_us: float | None = None  # what a layer of the step takes less than by that path, round by round
    saved_lo_us: float | None = None
    saved_hi_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchWayRow:
    """What a launch costs by one way. Times in microseconds, with intervals."""

    schema: Literal[1] = 1
    run_id: Name
    gpu: Name
    way: Name
    arguments: Count  # how many it has; 0 where that is not ours to say
    status: Status
    reason: TextLine = ""
    rounds: Count = 0
    processes: Count = 0
    host_us: float | None = None  # what the host takes for a launch
    host_lo_us: LowEnd | None = None
    host_hi_us: HighEnd | None = None
    gap_us: float | None = None  # from the start of a kernel to that of the next, all enqueued before the GPU begins
    gap_lo_us: LowEnd | None = None
    gap_hi_us: HighEnd | None = None


def refuse_lost_rows(folder: Path, op: str) -> None:
    """Raises RunFormatError, saying which table a run of `gdnbench step` of this op lacks, or has without a row."""
    path = folder / (LAUNCH_WAYS if op == LAUNCHES_OP else STEP_NAME)
    raise RunFormatError(f"{path} {'has no rows' if path.exists() else 'is missing'}", files.DAMAGED)


def read_steps(folder: Path) -> list[StepRow]:
    """Reads `step.csv`; no rows where there is none."""
    return files.read_dataclasses(folder / STEP_NAME, StepRow)


def read_launch_ways(folder: Path) -> list[LaunchWayRow]:
    """Reads `step-launches.csv`; no rows where there is none."""
    return files.read_dataclasses(folder / LAUNCH_WAYS, LaunchWayRow)


SWEEP_SCHEMA = 2
SWEEP_NAME = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Writes `sweep.json`; an unknown upper end is null, for JSON has no infinity."""
    files.write_document(folder / SWEEP_NAME, finite({"schema": SWEEP_SCHEMA, **sweep.to_dict()}), indent=1)


def read_sweep(folder: Path) -> Sweep | None:
    """Reads `sweep.json`; None for a run that is not a sweep. RunFormatError if it contradicts itself."""
    path = folder / SWEEP_NAME
    if not path.exists():
        return None
    document = files.read_document(path, _SweepDocument)
    if document.schema not in (1, SWEEP_SCHEMA):
        raise RunFormatError(f"{path} is of another schema version", "use the gdnbench that wrote it")
    try:
        return document.sweep(read_axes(folder))
    except (ValueError, ShapeError) as error:
        raise RunFormatError(f"{path}: {error}", files.DAMAGED) from error


class _Closed(Struct, forbid_unknown_fields=True):
    """Refuses unknown fields: one of them might change what the others mean."""


class _PointDocument(_Closed):
    kernel: Name
    label: Name
    params: ParamValues
    shape: SizesDocument
    place: Place
    slower_by: Annotated[float, Meta(gt=-1, le=1e9)]
    slower_lo: Annotated[float, Meta(ge=-1, le=1e9)]
    slower_hi: Annotated[float, Meta(gt=-1, le=1e18)] | None
    rounds: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
    profile: MaybeName = ""

    def point(self, axes: WorkloadSpec) -> Point:
        slower_hi = math.inf if self.slower_hi is None else self.slower_hi
        return Point(**_fields_at(self, axes) | {"params": Params(self.params), "slower_hi": slower_hi})


class _PlateauDocument(_Closed):
    kernel: Name
    shape: SizesDocument
    best: Name
    simplest: Name
    tied: tuple[Name, ...]
    unclear: tuple[Name, ...]
    within: NotNegative
    profile: MaybeName = ""

    def plateau(self, axes: WorkloadSpec) -> Plateau:
        return Plateau(**_fields_at(self, axes))


def _fields_at(document: _PointDocument | _PlateauDocument, axes: WorkloadSpec) -> dict[str, Any]:
    """The fields of a document, with the workload in the place of `shape` and `profile`."""
    values = structs.asdict(document)
    workload = axes.stored(values.pop("shape"), profile=values.pop("profile"))
    return {**values, "workload": workload}


class _RegretDocument(_Closed):
    shape: SizesDocument
    regret: NotNegative
    profile: MaybeName = ""


class _OneForAllDocument(_Closed):
    kernel: Name
    label: Name
    regret: Annotated[tuple[_RegretDocument, ...], Meta(min_length=1)]

    def one_for_all(self, axes: WorkloadSpec) -> OneForAll:
        regret = {axes.stored(each.shape, profile=each.profile): each.regret for each in self.regret}
        return OneForAll(kernel=self.kernel, label=self.label, regret=regret)


class _SweepDocument(_Closed):
    schema: int
    axes: dict[Name, dict[ParamName, list[ParamCell]]]
    budget_s: NotNegative
    points: tuple[_PointDocument, ...]
    plateaus: tuple[_PlateauDocument, ...]
    one_for_all: tuple[_OneForAllDocument, ...]
    finals: tuple[_PointDocument, ...] = ()  # older sweeps have none

    def sweep(self, axes: WorkloadSpec) -> Sweep:
        return Sweep(
            axes=self.axes,
            budget_s=self.budget_s,
            points=tuple(each.point(axes) for each in self.points),
            plateaus=tuple(each.plateau(axes) for each in self.plateaus),
            one_for_all=tuple(each.one_for_all(axes) for each in self.one_for_all),
            finals=tuple(each.point(axes) for each in self.finals),
        )
