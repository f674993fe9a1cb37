"""Recordings of `gdnbench proton`: a JSON file, Proton's trace beside it, and the durations in them.

A trace is in Chrome's Trace Event Format. An event of the instrumentation is one pass of one warp through one scope:
`pid` names function, SM and block (`gdn_decode Core0 CTA15`), `tid` the warp (`warp 3 (line 0)`; nested scopes are on
further lines). Blocks begin at a `ts` in true microseconds; inside a block, `ts` and `dur` are cycles written as if the
clock ran at 1 GHz: 1.862 is 1862 cycles.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, structs

from gdnbench.codec import SchemaError, Text, Word, decode_json
from gdnbench.errors import ProfilerError, ReportFormatError, ShapeError
from gdnbench.model.case import Case
from gdnbench.profile.breakdown import Breakdown
from gdnbench.profile.files import CaseFields, FileName, LaunchMicroseconds, SourceHash, decode_document, read_content
from gdnbench.stats import FloatArray, IntArray
from gdnbench.store.schema import SmallCount

_SCHEMA = 1
PLAIN, INSTRUMENTED = "plain", "instrumented"
WARM_UPS = 1
"""Traced launches that do not count: the first one also loads the code, and took 12 to 50 % longer on an H200."""

_HINT = "`--import` takes the .json that `gdnbench proton` wrote"
_SOME = Meta(min_length=1)
C = TypeVar("C")
# A pause separates two launches: Proton fetches a launch's records before the next one begins, which takes at least
# 4.4 ms in traces of an H200. Inside a launch the SMs' work overlaps.
_PAUSE = 100.0  # in the trace's unit, which is true microseconds between launches


class RecordingOf(msgspec.Struct, Generic[C], frozen=True):
    """The measurements of one run of `gdnbench proton`, as files hold them but for the case.

    Older files also hold CUPTI's times of launches, which `gdnbench run` has, and are not read.
    """

    op: Word
    case: C
    gpu: Text
    triton: Text  # Triton's version, which is Proton's
    # cold launches by CUDA events, in microseconds: `plain` and `instrumented`
    times_us: dict[Text, Annotated[list[LaunchMicroseconds], _SOME]]
    # name of the gzipped trace file beside this one; empty in older files, of kernels without scopes
    trace: FileName = ""
    mode: Text = ""
    launches: SmallCount = 0  # traced launches that count, after `WARM_UPS` that do not
    capacity: SmallCount = 0  # passes through scopes that a warp can record in a launch
    sm_mhz: tuple[Annotated[float, Meta(ge=1, le=1e6)], ...] = ()  # the SM clock before and after the traced launches
    notes: tuple[str, ...] = ()
    source: SourceHash = ""  # hash of the kernel's sources; empty in files from before gdnbench recorded it

    def write(self: Recording, path: Path) -> None:
        """Writes the recording as JSON."""
        path.write_text(json.dumps({"schema": _SCHEMA, **self.to_dict()}, indent=1) + "\n")

    def to_dict(self: Recording) -> dict[str, Any]:
        """Returns the fields as JSON holds them."""
        return {**structs.asdict(self), "case": self.case.to_dict()}

    def breakdown(self, folder: Path) -> Breakdown | None:
        """Returns durations by scope from the trace in `folder`, or None without scopes; raises as `load_profile`."""
        if not (self.trace and self.sm_mhz):
            return None
        spans = read_trace(folder / self.trace)
        breakdown = durations_by_scope(spans, sm_mhz=mean(self.sm_mhz), skip=WARM_UPS, capacity=self.capacity)
        if breakdown.launches != self.launches:
            found = f"{breakdown.launches} launches besides the one that warms up"
            raise ProfilerError(f"{self.trace} holds {found}, and {self.launches} were made", "trace the kernel again")
        return breakdown


Recording = RecordingOf[Case]


def read_recording(path: Path) -> Recording:
    """Reads what `write` wrote; raises ReportFormatError if it is invalid."""
    content = read_content(path, _HINT)
    if content.lstrip()[:1] == b"[":
        raise ReportFormatError(f"{path} is a profile in Proton's default format, hatchet, which is not read", _HINT)
    try:
        stored = decode_document(content, RecordingOf[CaseFields], _SCHEMA)
        if PLAIN not in stored.times_us:
            raise SchemaError(f"times_us: it lacks {PLAIN}")
        return Recording(**{**structs.asdict(stored), "case": stored.case.case(stored.op)})
    except (ValueError, ShapeError) as error:
        raise ReportFormatError(f"{path} is not a recording: {error}", _HINT) from error


@dataclass(frozen=True)
class ProtonProfile:
    """A stored recording, and its durations by scope; None for a kernel without scopes."""

    path: Path
    recording: Recording
    breakdown: Breakdown | None

    @property
    def trace(self) -> Path | None:
        """The file for Perfetto, or None for a kernel without scopes."""
        return self.path.with_name(self.recording.trace) if self.recording.trace else None


def load_profile(path: Path) -> ProtonProfile:
    """Reads a recording with its trace. Raises ReportFormatError if one is invalid, ProfilerError if of no use."""
    recording = read_recording(path)
    return ProtonProfile(path, recording, recording.breakdown(path.parent))


def durations_by_scope(spans: Spans, *, sm_mhz: float, skip: int = 0, capacity: int | None = None) -> Breakdown:
    """Durations by scope, launch and warp, µs, after `skip` launches; ProfilerError if they cannot be compared."""
    launch = _launches(spans)
    warps, warp = _warps(spans)
    shape = (int(launch.max()) + 1, len(warps))
    _check_warps(spans, launch, warp, shape)
    _check_space(launch * shape[1] + warp, capacity)
    if shape[0] <= skip:
        raise ProfilerError(f"the trace holds {shape[0]} launches, and the first {skip} do not count", "launch more")
    scale = 1e3 / sm_mhz
    phases = {
        name: _sums(spans, number, launch, warp, shape)[skip:] * scale for number, name in _in_order(spans).items()
    }
    nested = frozenset(spans.names[number] for number in np.unique(spans.scope[spans.line > 0]))
    return Breakdown(phases, _totals(spans, launch, warp, shape)[skip:] * scale, nested)


def _launches(spans: Spans) -> IntArray:
    order = np.argsort(spans.begin, kind="stable")
    begin, end = spans.begin[order], np.maximum.accumulate((spans.begin + spans.length)[order])
    launch = np.empty(len(order), dtype=np.int64)
    launch[order] = np.concatenate([[0], np.cumsum(begin[1:] > end[:-1] + _PAUSE)])
    return launch


def _warps(spans: Spans) -> tuple[IntArray, IntArray]:
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


_BLOCK = re.compile(r".+ Core(\d{1,9}) CTA(\d{1,9})")
_WARP = re.compile(r"warp (\d{1,9}) \(line (\d{1,9})\)")
_MOST_CYCLES = 2**31  # half the range of a 32-bit clock; a second of work
_AGAIN = "record it again with `gdnbench proton`"
_LATEST_US = 2.0**53  # a larger `ts` has no fraction

Time = Annotated[float, Meta(ge=-_LATEST_US, le=_LATEST_US)]


class ScopeEvent(msgspec.Struct, frozen=True):
    """One pass of one warp through one scope."""

    name: Text
    pid: Text
    tid: Text
    ts: Time
    dur: Time


class _ScopeTrace(msgspec.Struct, frozen=True):
    events: list[ScopeEvent] = msgspec.field(name="traceEvents")


@dataclass(frozen=True)
class Spans:
    """The events of a trace, a column each; `scope` is an index into `names`, `line` the depth inside other scopes.

    `begin` and `length` are in thousands of cycles; `begin` is comparable only inside a warp, and between launches.
    """

    names: tuple[str, ...]
    scope: IntArray
    core: IntArray
    block: IntArray
    warp: IntArray
    line: IntArray
    begin: FloatArray
    length: FloatArray


def read_trace(path: Path) -> Spans:
    """Reads a trace; ReportFormatError if it is invalid, ProfilerError if it has no scopes or a clock wrapped."""
    content = read_content(path, _AGAIN)
    try:
        events = decode_json(content, _ScopeTrace).events if content.strip() else []  # Proton's file without scopes
    except SchemaError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", _AGAIN) from error
    if not events:
        raise ProfilerError(f"{path} holds no scopes", "mark the kernel's phases with gdnbench.trace.scope")
    names = tuple(dict.fromkeys(event.name for event in events))
    numbers = {name: number for number, name in enumerate(names)}
    try:
        places = np.array([(numbers[event.name], *_place(event.pid, event.tid)) for event in events])
    except ValueError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", _AGAIN) from error
    times = np.array([(event.ts, event.dur) for event in events])
    if times[:, 1].min() < 0 or times[:, 1].max() * 1e3 > _MOST_CYCLES:
        raise ProfilerError(f"{path} holds a scope in which an SM's 32-bit clock wrapped", _AGAIN)
    return Spans(names, *places.T, *times.T)


@cache
def _place(pid: str, tid: str) -> tuple[int, ...]:
    block, warp = _BLOCK.fullmatch(pid), _WARP.fullmatch(tid)
    if not (block and warp):
        raise ValueError(f"{pid[:40]!r}, {tid[:40]!r} names no warp of a block")
    return tuple(int(number) for number in (*block.groups(), *warp.groups()))
