"""Reads the trace that Proton's instrumentation writes: every pass of every warp through every scope.

A trace is in Chrome's Trace Event Format. An event is one pass of one warp through one scope: its `pid` names
function, SM and block (`gdn_decode Core0 CTA15`), its `tid` the warp (`warp 3 (line 0)`; a scope inside another is on
a further line). Blocks begin at a `ts` in true microseconds; inside a block, `ts` and `dur` are cycles written as if
the clock ran at 1 GHz, so that 1.862 stands for 1862 cycles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError, ReportFormatError
from gdnbench.profilers.proton.trace_file import AGAIN, Origin, read_file
from gdnbench.stats import FloatArray

IntArray = npt.NDArray[np.int64]

_BLOCK = re.compile(r".+ Core(\d{1,9}) CTA(\d{1,9})")
_WARP = re.compile(r"warp (\d{1,9}) \(line (\d{1,9})\)")
_MOST_CYCLES = 2**31  # half of what a 32-bit clock counts before it wraps; a second of work


@dataclass(frozen=True)
class Spans:
    """The events of a trace, a column each.

    Attributes:
        names: the scopes.
        origin: what the trace is of.
        scope: which of them, by its place in `names`.
        core: the SM.
        block: the block's number in the grid.
        warp: the warp's number in the block.
        line: 0, or how deep the scope lies inside others.
        begin: when it began; comparable only inside a warp, and from launch to launch. Thousands of cycles.
        length: how long it took, thousands of cycles.
    """

    names: tuple[str, ...]
    origin: Origin
    scope: IntArray
    core: IntArray
    block: IntArray
    warp: IntArray
    line: IntArray
    begin: FloatArray
    length: FloatArray


def read_trace(path: Path) -> Spans:
    """Reads a trace, plain or gzipped.

    Raises:
        ReportFormatError: if it cannot be read, is cut off or another tool's.
        ProfilerError: if it holds no scopes, or a clock wrapped in it.
    """
    file = read_file(path)
    if not file.events:
        raise ProfilerError(f"{path} holds no scopes", "mark the kernel's phases with gdnbench.trace.scope")
    names = tuple(dict.fromkeys(event.name for event in file.events))
    numbers = {name: number for number, name in enumerate(names)}
    try:
        places = np.array([(numbers[event.name], *_place(event.pid, event.tid)) for event in file.events])
    except ValueError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", AGAIN) from error
    times = np.array([(event.ts, event.dur) for event in file.events])
    if times[:, 1].min() < 0 or times[:, 1].max() * 1e3 > _MOST_CYCLES:
        raise ProfilerError(f"{path} holds a scope in which an SM's 32-bit clock wrapped", AGAIN)
    return Spans(names, file.origin, *places.T, *times.T)


@cache
def _place(pid: str, tid: str) -> tuple[int, ...]:
    """Core, block, warp and line; a few thousand of them name all events."""
    block, warp = _BLOCK.fullmatch(pid), _WARP.fullmatch(tid)
    if not (block and warp):
        raise ValueError(f"{pid[:40]!r}, {tid[:40]!r} names no warp of a block")
    return tuple(int(number) for number in (*block.groups(), *warp.groups()))
