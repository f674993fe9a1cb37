"""Proton's traces: each pass of a warp through a scope, and the durations that its CUPTI backend records.

A trace is in Chrome's Trace Event Format. An event of the instrumentation is one pass of one warp through one scope:
`pid` names function, SM and block (`gdn_decode Core0 CTA15`), `tid` the warp (`warp 3 (line 0)`; nested scopes are on
further lines). Blocks begin at a `ts` in true microseconds; inside a block, `ts` and `dur` are cycles written as if the
clock ran at 1 GHz: 1.862 is 1862 cycles. gdnbench records the traced kernel in the format's free member `otherData`.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
from msgspec import Meta

from gdnbench.codec import SchemaError, Text, decode_json
from gdnbench.errors import ProfilerError, ReportFormatError
from gdnbench.profile.files import SourceHash, read_content
from gdnbench.stats import FloatArray, IntArray

_BLOCK = re.compile(r".+ Core(\d{1,9}) CTA(\d{1,9})")
_WARP = re.compile(r"warp (\d{1,9}) \(line (\d{1,9})\)")
_MOST_CYCLES = 2**31  # half the range of a 32-bit clock; a second of work
_AGAIN = "record it again with `gdnbench proton`"
_KERNEL, _SOURCE = "gdnbench_kernel", "gdnbench_source"
_LATEST_US = 2.0**53  # a larger `ts` has no fraction

Time = Annotated[float, Meta(ge=-_LATEST_US, le=_LATEST_US)]


class ScopeEvent(msgspec.Struct, frozen=True):
    """One pass of one warp through one scope."""

    name: Text
    pid: Text
    tid: Text
    ts: Time
    dur: Time


class TraceOrigin(msgspec.Struct, frozen=True):
    """The kernel of a trace; empty if the trace does not name it, or gdnbench did not record it."""

    label: Text = msgspec.field(default="", name=_KERNEL)
    source: SourceHash = msgspec.field(default="", name=_SOURCE)


class _ScopeTrace(msgspec.Struct, frozen=True):
    events: list[ScopeEvent] = msgspec.field(name="traceEvents")
    origin: TraceOrigin = msgspec.field(default=TraceOrigin(), name="otherData")


class _CuptiEvent(msgspec.Struct, frozen=True):
    """A GPU function, or another event, in the trace of Proton's CUPTI backend."""

    name: str
    ts: Time
    dur: Time
    cat: str = ""


class _CuptiTrace(msgspec.Struct, frozen=True):
    events: list[_CuptiEvent] = msgspec.field(name="traceEvents")


def write_trace(written: BinaryIO, path: Path, *, label: str, source: str) -> None:
    """Stores Proton's trace gzipped, which Perfetto opens: a twentieth of its size. Prepends label and source hash.

    Args:
        written: Proton's file, open for reading.
    """
    origin = json.dumps({"otherData": {_KERNEL: label, _SOURCE: source}}).encode()
    with gzip.open(path, "wb", compresslevel=6) as packed:
        first = written.read(1)
        packed.write(origin[:-1] + b"," if first == b"{" else first)
        shutil.copyfileobj(written, packed)


@dataclass(frozen=True)
class Spans:
    """The events of a trace, a column each.

    Attributes:
        scope: index into `names`.
        core: the SM.
        block: the block's index in the grid.
        warp: the warp's index in the block.
        line: the scope's depth inside other scopes, from 0.
        begin: thousands of cycles; comparable only inside a warp, and between launches.
        length: thousands of cycles.
    """

    names: tuple[str, ...]
    origin: TraceOrigin
    scope: IntArray
    core: IntArray
    block: IntArray
    warp: IntArray
    line: IntArray
    begin: FloatArray
    length: FloatArray


def read_trace(path: Path) -> Spans:
    """Reads a trace, plain or gzipped.

    Raises ReportFormatError if it is invalid; ProfilerError if it holds no scopes, or a clock wrapped.
    """
    trace = _read_scope_trace(path)
    if not trace.events:
        raise ProfilerError(f"{path} holds no scopes", "mark the kernel's phases with gdnbench.trace.scope")
    names = tuple(dict.fromkeys(event.name for event in trace.events))
    numbers = {name: number for number, name in enumerate(names)}
    try:
        places = np.array([(numbers[event.name], *_place(event.pid, event.tid)) for event in trace.events])
    except ValueError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", _AGAIN) from error
    times = np.array([(event.ts, event.dur) for event in trace.events])
    if times[:, 1].min() < 0 or times[:, 1].max() * 1e3 > _MOST_CYCLES:
        raise ProfilerError(f"{path} holds a scope in which an SM's 32-bit clock wrapped", _AGAIN)
    return Spans(names, trace.origin, *places.T, *times.T)


def kernel_durations_us(path: Path, launches: int) -> dict[str, list[float]]:
    """Returns each launch's durations in microseconds by GPU function, from a trace of Proton's CUPTI backend.

    A flush of the L2, the trace's first function, precedes each launch and is left out. Repeated calls of a function
    within a launch are summed. Raises ProfilerError if the trace cannot be read, or the number of launches differs.
    """
    try:
        events = sorted(decode_json(path.read_bytes(), _CuptiTrace).events, key=lambda event: event.ts)
    except (OSError, SchemaError) as error:
        raise ProfilerError(f"Proton's CUPTI backend left no trace that can be read: {error}") from error
    timed = [(event.name, event.dur) for event in events if event.cat == "kernel"]
    flush = timed[0][0] if timed else ""
    if sum(name == flush for name, _ in timed) != launches:
        raise ProfilerError("the flushes in Proton's CUPTI trace are not those that were launched")
    found: dict[str, list[float]] = {name: [0.0] * launches for name, _ in timed if name != flush}
    launch = -1
    for name, duration in timed:
        if name == flush:
            launch += 1
        else:
            found[name][launch] += duration
    return found


def _read_scope_trace(path: Path) -> _ScopeTrace:
    """Reads a trace, plain or gzipped; Proton's empty file for a kernel without scopes gives no events."""
    content = read_content(path, _AGAIN)
    if not content.strip():
        return _ScopeTrace(events=[])
    try:
        return decode_json(content, _ScopeTrace)
    except SchemaError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", _AGAIN) from error


@cache
def _place(pid: str, tid: str) -> tuple[int, ...]:
    """Parses core, block, warp and line; cached, as a few thousand pairs name all events."""
    block, warp = _BLOCK.fullmatch(pid), _WARP.fullmatch(tid)
    if not (block and warp):
        raise ValueError(f"{pid[:40]!r}, {tid[:40]!r} names no warp of a block")
    return tuple(int(number) for number in (*block.groups(), *warp.groups()))
