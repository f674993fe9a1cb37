"""A recording of `gdnbench proton`, a JSON file with Proton's trace beside it, and the durations in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from gdnbench.catalog.catalog import Catalog
from gdnbench.codec import SchemaError, Text, Word
from gdnbench.errors import ProfilerError, ReportFormatError, ShapeError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import TritonKernel
from gdnbench.profile.files import (
    CaseFields,
    DurationMicroseconds,
    FileName,
    LaunchMicroseconds,
    SourceHash,
    decode_document,
    make_folder,
    profile_name,
    read_content,
)
from gdnbench.profile.phases.analysis import Breakdown
from gdnbench.profile.process import ProfileTask, check_left, run_worker
from gdnbench.profile.proton.trace import Spans, TraceOrigin, read_trace
from gdnbench.stats import FloatArray, IntArray
from gdnbench.store.schema import SmallCount

_SCHEMA = 1
PLAIN, INSTRUMENTED = "plain", "instrumented"
WARM_UPS = 1
"""Traced launches that do not count: the first one also loads the code, and took 12 to 50 % longer on an H200."""

_HINT = "`--import` takes the .json that `gdnbench proton` wrote, or a .chrome_trace of Proton's"
_SOME = Meta(min_length=1)
# A pause separates two launches: Proton fetches a launch's records before the next one begins, which takes at least
# 4.4 ms in traces of an H200. Inside a launch the SMs' work overlaps.
_PAUSE = 100.0  # in the trace's unit, which is true microseconds between launches


class _RecordingFields(msgspec.Struct, frozen=True):
    """A recording as files hold it, with ranges."""

    op: Word
    case: CaseFields
    language: Literal["triton", "torch"]
    gpu: Text
    triton: Text
    times_us: dict[Text, Annotated[list[LaunchMicroseconds], _SOME]]
    cupti_us: dict[Text, Annotated[list[DurationMicroseconds], _SOME]] = {}
    trace: FileName = ""
    mode: Text = ""
    launches: SmallCount = 0
    capacity: SmallCount = 0
    sm_mhz: tuple[Annotated[float, Meta(ge=1, le=1e6)], ...] = ()
    notes: tuple[str, ...] = ()
    source: SourceHash = ""
    entries: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Recording:
    """The measurements of one run of `gdnbench proton`.

    Attributes:
        language: of the kernel's declaration: `triton`, or `torch` for one called through Python.
        gpu: the name that CUDA reports.
        triton: Triton's version, which is Proton's.
        times_us: cold launches by CUDA events, in microseconds: `plain`, and `instrumented` if the kernel has scopes.
        cupti_us: durations by GPU function of the plain kernel's cold launches, from Proton's CUPTI backend; may be
            empty.
        trace: name of the gzipped trace file beside this one; empty for a kernel without scopes.
        mode: Proton's mode of instrumentation.
        launches: traced launches that count, after `WARM_UPS` that do not.
        capacity: passes through scopes that a warp can record in a launch.
        sm_mhz: the SM clock before and after the traced launches.
        notes: what qualifies the numbers.
        source: hash of the kernel's sources; empty in files from before gdnbench recorded it.
        entries: the launches of a Triton kernel that makes several, in order; nothing is traced of it. Else empty.
    """

    op: str
    case: Case
    language: str
    gpu: str
    triton: str
    times_us: Mapping[str, list[float]]
    cupti_us: Mapping[str, list[float]] = field(default_factory=dict)
    trace: str = ""
    mode: str = ""
    launches: int = 0
    capacity: int = 0
    sm_mhz: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    entries: tuple[str, ...] = ()

    @property
    def call_us(self) -> list[float]:
        """Sum of the functions' CUPTI durations for each call, without gaps between them; microseconds.

        Empty if a call has one function only, or calls differ in their functions.
        """
        times = list(self.cupti_us.values())
        alike = len(times) > 1 and len({len(each) for each in times}) == 1
        return [sum(call) for call in zip(*times, strict=True)] if alike else []

    def write(self, path: Path) -> None:
        """Writes the recording as JSON."""
        document = {"schema": _SCHEMA, **asdict(self), "case": self.case.to_dict()}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads what `write` wrote; raises ReportFormatError if it is invalid."""
        content = read_content(path, _HINT)
        try:
            stored = decode_document(content, _RecordingFields, _SCHEMA)
            if PLAIN not in stored.times_us:
                raise SchemaError(f"times_us: it lacks {PLAIN}")
            case = stored.case.case(stored.op)
        except (ValueError, ShapeError) as error:
            raise ReportFormatError(f"{path} is no recording: {error}", _HINT) from error
        return cls(**{**msgspec.structs.asdict(stored), "case": case})

    @property
    def clock_mhz(self) -> float | None:
        """The SM clock during the traced launches, or None if nothing was traced."""
        return sum(self.sm_mhz) / len(self.sm_mhz) if self.sm_mhz else None

    def breakdown(self, folder: Path) -> Breakdown | None:
        """Returns durations by scope from the trace in `folder`, or None without scopes.

        Raises ProfilerError if the trace is missing, cannot be used, or lacks some of the traced launches.
        """
        if not self.trace:
            return None
        spans = read_trace(folder / self.trace)
        breakdown = durations_by_scope(spans, sm_mhz=self.clock_mhz, skip=WARM_UPS, capacity=self.capacity)
        if breakdown.launches != self.launches:
            found = f"{breakdown.launches} launches besides the one that warms up"
            raise ProfilerError(f"{self.trace} holds {found}, and {self.launches} were made", "trace the kernel again")
        return breakdown


@dataclass(frozen=True)
class ProtonProfile:
    """A stored recording, or a trace alone; `recording` is None for a trace that gdnbench did not record.

    `breakdown` has the durations by scope; None for a kernel without scopes.
    """

    path: Path
    recording: Recording | None
    breakdown: Breakdown | None
    origin: TraceOrigin

    @property
    def trace(self) -> Path | None:
        """The file for Perfetto, or None for a kernel without scopes."""
        if self.recording is None:
            return self.path
        return self.path.with_name(self.recording.trace) if self.recording.trace else None


def load_profile(path: Path) -> ProtonProfile:
    """Reads a recording, or a trace of Proton's instrumentation alone, whose times stay cycles, of all launches.

    Raises ReportFormatError if the file is not a recording, or the trace cannot be read; ProfilerError if the trace
    cannot be used.
    """
    if read_content(path, _HINT).lstrip()[:1] == b"[":
        raise ReportFormatError(f"{path} is a profile in Proton's default format, hatchet, which is not read", _HINT)
    if path.suffix == ".json":
        recording = Recording.read(path)
        origin = TraceOrigin(recording.case.variant.label, recording.source)
        return ProtonProfile(path, recording, recording.breakdown(path.parent), origin)
    spans = read_trace(path)
    return ProtonProfile(path, None, durations_by_scope(spans, sm_mhz=None), spans.origin)


def durations_by_scope(spans: Spans, *, sm_mhz: float | None, skip: int = 0, capacity: int | None = None) -> Breakdown:
    """Returns durations by scope, launch and warp.

    Raises ProfilerError if launches differ in their warps, a warp ran out of space, or no launch is left.

    Args:
        sm_mhz: the SM clock during the launches; None keeps cycles.
        skip: leading launches that do not count.
        capacity: passes through scopes that a warp can record in a launch; None if unknown.
    """
    launch = _launches(spans)
    warps, warp = _warps(spans)
    shape = (int(launch.max()) + 1, len(warps))
    _check_warps(spans, launch, warp, shape)
    _check_space(launch * shape[1] + warp, capacity)
    if shape[0] <= skip:
        raise ProfilerError(f"the trace holds {shape[0]} launches, and the first {skip} do not count", "launch more")
    scale = 1e3 if sm_mhz is None else 1e3 / sm_mhz
    phases = {
        name: _sums(spans, number, launch, warp, shape)[skip:] * scale for number, name in _in_order(spans).items()
    }
    nested = frozenset(spans.names[number] for number in np.unique(spans.scope[spans.line > 0]))
    return Breakdown(
        phases, _totals(spans, launch, warp, shape)[skip:] * scale, "cycles" if sm_mhz is None else "µs", nested
    )


def _launches(spans: Spans) -> IntArray:
    """Returns the launch index of each event."""
    order = np.argsort(spans.begin, kind="stable")
    begin, end = spans.begin[order], np.maximum.accumulate((spans.begin + spans.length)[order])
    launch = np.empty(len(order), dtype=np.int64)
    launch[order] = np.concatenate([[0], np.cumsum(begin[1:] > end[:-1] + _PAUSE)])
    return launch


def _warps(spans: Spans) -> tuple[IntArray, IntArray]:
    """Returns every (block, warp) of the grid, and the index into them of each event."""
    pairs, place = np.unique(np.stack([spans.block, spans.warp], axis=1), axis=0, return_inverse=True)
    return pairs, place.reshape(-1)


def _check_warps(spans: Spans, launch: IntArray, warp: IntArray, shape: tuple[int, int]) -> None:
    """Checks that each warp is in each launch, on one SM there; otherwise two launches were taken for one.

    Proton drops a warp's events if its 32-bit clock wrapped, which happens every 2.2 s at 1.98 GHz.
    """
    lane = launch * shape[1] + warp
    lanes = len(np.unique(lane))
    on_cores = len(np.unique(np.stack([lane, spans.core], axis=1), axis=0))
    if not lanes == on_cores == shape[0] * shape[1]:
        raise ProfilerError(
            f"the trace does not come apart into launches of equal grids: it holds {lanes} warps on {on_cores} SMs, "
            f"where {shape[0]} launches of {shape[1]} warps should be",
            "trace it again: launches of one kernel at one workload, each waited for",
        )


def _check_space(lane: IntArray, capacity: int | None) -> None:
    """Refuses a full buffer: Proton's is circular, and silently overwrites the first passes."""
    most = int(np.bincount(lane).max())
    if capacity is not None and most >= capacity:
        raise ProfilerError(
            f"a warp recorded {most} passes through scopes, which is all that Proton's buffer holds",
            "the earliest may be lost: use fewer warps or fewer turns of the loop",
        )


def _in_order(spans: Spans) -> dict[int, str]:
    """Returns the scopes in the order of the trace's first warp, then those that only other warps run."""
    first = (spans.block == spans.block[0]) & (spans.warp == spans.warp[0])
    seen = spans.scope[first][np.argsort(spans.begin[first], kind="stable")]
    return {int(number): spans.names[number] for number in dict.fromkeys([*seen, *range(len(spans.names))])}


def _sums(spans: Spans, number: int, launch: IntArray, warp: IntArray, shape: tuple[int, int]) -> FloatArray:
    mine = spans.scope == number
    sums, passes = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (launch[mine], warp[mine]), spans.length[mine])
    np.add.at(passes, (launch[mine], warp[mine]), 1)
    return np.where(passes > 0, sums, np.nan)


def _totals(spans: Spans, launch: IntArray, warp: IntArray, shape: tuple[int, int]) -> FloatArray:
    first, last = np.full(shape, np.inf), np.full(shape, -np.inf)
    np.minimum.at(first, (launch, warp), spans.begin)
    np.maximum.at(last, (launch, warp), spans.begin + spans.length)
    totals: FloatArray = last - first
    return totals


# Six scopes are 1.5 KB of trace for each warp of each launch: 100 MB in all before gzip.
_MOST_WARPS = 65536


def limit_launches(catalog: Catalog, case: Case, wanted: int, note: Callable[[str], None]) -> int:
    """Returns `wanted`, or as many launches as keep the trace readable; raises UsageError if one is too large."""
    kernel, params = catalog.entries[case.variant.kernel].kernel, case.variant.params
    if not isinstance(kernel, TritonKernel) or len(kernel.launches) > 1:  # nothing is traced
        return wanted
    blocks, warps = (
        prod(kernel.launches[0].grid(case.workload, params)),
        kernel.launches[0].warps(case.workload, params),
    )
    fitting = _MOST_WARPS // (blocks * warps) - WARM_UPS
    if fitting < 1:
        large = f"{blocks} blocks of {warps} warps are too many to trace, at 1.5 KB a warp and launch"
        raise UsageError(
            large, f"all blocks do the same: trace a smaller {case.workload.spec.x} than {case.workload.x}"
        )
    if fitting < wanted:
        note(f"tracing {fitting} of {wanted} launches: {blocks} blocks of {warps} warps make a large trace")
    return min(wanted, fitting)


def record_trace(assignment: ProfileTask, gpu: Gpu, profiles: Path, *, limit_s: float) -> Path:
    """Runs the worker; returns the file to read as a `Recording`. Raises ProfilerError if the worker fails."""
    case = assignment.case
    path = make_folder(profiles, "proton", case.label) / f"{profile_name(case, gpu.slug)}.json"
    ended = run_worker(replace(assignment, result=str(path.resolve())), gpu, limit_s=limit_s)
    check_left(ended, path, f"{case.label} could not be traced", f"gdnbench verify {case.label}")
    return path
