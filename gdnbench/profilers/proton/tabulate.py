"""Makes durations by scope, launch and warp of a trace's events."""

from __future__ import annotations

import numpy as np

from gdnbench.errors import ProfilerError
from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.proton.trace import IntArray, Spans
from gdnbench.stats import FloatArray

# Launches are told apart by the pause between them. Proton fetches what a launch wrote before the next one begins,
# which takes milliseconds: 4.4 at least in traces of an H200. Inside a launch the SMs' work overlaps.
_PAUSE = 100.0  # in the trace's units, true microseconds from launch to launch


def tabulate(spans: Spans, *, sm_mhz: float | None, skip: int = 0, capacity: int | None = None) -> Breakdown:
    """Durations by scope, launch and warp.

    Args:
        spans: the events.
        sm_mhz: the SM clock during the launches; None leaves cycles.
        skip: launches at the beginning that do not count.
        capacity: passes through scopes that a warp can record in a launch; None if not known.

    Raises:
        ProfilerError: if not all launches have the same warps, a warp ran out of space, or no launch is left.
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
    """Each event's launch, from 0."""
    order = np.argsort(spans.begin, kind="stable")
    begin, end = spans.begin[order], np.maximum.accumulate((spans.begin + spans.length)[order])
    launch = np.empty(len(order), dtype=np.int64)
    launch[order] = np.concatenate([[0], np.cumsum(begin[1:] > end[:-1] + _PAUSE)])
    return launch


def _warps(spans: Spans) -> tuple[IntArray, IntArray]:
    """Every (block, warp) of the grid, and each event's place among them."""
    pairs, place = np.unique(np.stack([spans.block, spans.warp], axis=1), axis=0, return_inverse=True)
    return pairs, place.reshape(-1)


def _check_warps(spans: Spans, launch: IntArray, warp: IntArray, shape: tuple[int, int]) -> None:
    """Every warp must be in each launch, and on one SM there; otherwise two launches were taken for one.

    Proton leaves a warp's events out where its 32-bit clock wrapped, which happens every 2.2 s at 1.98 GHz.
    """
    lane = launch * shape[1] + warp
    lanes = len(np.unique(lane))
    on_cores = len(np.unique(np.stack([lane, spans.core], axis=1), axis=0))
    if not lanes == on_cores == shape[0] * shape[1]:
        raise ProfilerError(
            f"the trace does not come apart into launches of equal grids: it holds {lanes} warps on {on_cores} SMs, "
            f"where {shape[0]} launches of {shape[1]} warps should be",
            "trace it again: launches of one kernel at one shape, each waited for",
        )


def _check_space(lane: IntArray, capacity: int | None) -> None:
    """Proton's buffer is circular: when it is full the first passes are overwritten, and nothing says so."""
    most = int(np.bincount(lane).max())
    if capacity is not None and most >= capacity:
        raise ProfilerError(
            f"a warp recorded {most} passes through scopes, which is all that Proton's buffer holds",
            "the earliest may be lost: use fewer warps or fewer turns of the loop",
        )


def _in_order(spans: Spans) -> dict[int, str]:
    """The scopes as they follow each other in the trace's first warp, then those that only other warps run."""
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
