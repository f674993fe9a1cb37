"""Reads the trace that Proton's instrumentation writes: every pass of every warp through every scope.

A trace is in Chrome's Trace Event Format. An event is one pass of one warp through one scope: its `pid` names
function, SM and block (`gdn_decode Core0 CTA15`), its `tid` the warp (`warp 3 (line 0)`; a scope inside another is on
a further line). Blocks begin at a `ts` in true microseconds; inside a block, `ts` and `dur` are cycles written as if
the clock ran at 1 GHz, so that 1.862 stands for 1862 cycles.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError
from gdnbench.stats import FloatArray

IntArray = npt.NDArray[np.int64]

_BLOCK = re.compile(r".+ Core(\d+) CTA(\d+)")
_WARP = re.compile(r"warp (\d+) \(line (\d+)\)")
_MOST_CYCLES = 2**31  # half of what a 32-bit clock counts before it wraps; a second of work
_AGAIN = "record it again with `gdnbench proton`"


@dataclass(frozen=True)
class Spans:
    """The events of a trace, a column each.

    Attributes:
        names: the scopes.
        scope: which of them, by its place in `names`.
        core: the SM.
        block: the block's number in the grid.
        warp: the warp's number in the block.
        line: 0, or how deep the scope lies inside others.
        begin: when it began; comparable only inside a warp, and from launch to launch. Thousands of cycles.
        length: how long it took, thousands of cycles.
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
    """Reads a trace, plain or gzipped.

    Raises:
        ProfilerError: if it cannot be read, is cut off or another tool's, holds no scopes, or a clock wrapped in it.
    """
    events = _events(path)
    if not events:
        raise ProfilerError(f"{path} holds no scopes", "mark the kernel's phases with gdnbench.trace.scope")
    names = tuple(dict.fromkeys(str(event.get("name")) for event in events if isinstance(event, dict)))
    numbers = {name: number for number, name in enumerate(names)}
    try:
        places = np.array([(numbers[event["name"]], *_place(event["pid"], event["tid"])) for event in events])
        times = np.array([(event["ts"], event["dur"]) for event in events], dtype=float)
    except (KeyError, TypeError, ValueError) as error:
        raise ProfilerError(f"{path} is not a trace of Proton's instrumentation", _AGAIN) from error
    if times[:, 1].min() < 0 or times[:, 1].max() * 1e3 > _MOST_CYCLES:
        raise ProfilerError(f"{path} holds a scope in which an SM's 32-bit clock wrapped", _AGAIN)
    return Spans(names, *places.T, *times.T)


def _events(path: Path) -> Sequence[Any]:
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        # Proton leaves an empty file where no kernel had a scope.
        events = json.loads(content)["traceEvents"] if content.strip() else []
    except (OSError, EOFError, zlib.error) as error:
        raise ProfilerError(f"cannot read {path}: {error}", _AGAIN) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ProfilerError(f"{path} is cut off, or no trace: {type(error).__name__}: {error}", _AGAIN) from error
    if not isinstance(events, list):
        raise ProfilerError(f"{path} is not a trace of Proton's instrumentation", _AGAIN)
    return events


@cache
def _place(pid: str, tid: str) -> tuple[int, ...]:
    """Core, block, warp and line; a few thousand of them name all events."""
    block, warp = _BLOCK.fullmatch(pid), _WARP.fullmatch(tid)
    if not (block and warp):
        raise ValueError(f"{pid} {tid}")
    return tuple(int(number) for number in (*block.groups(), *warp.groups()))
