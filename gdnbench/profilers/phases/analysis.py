"""Analyses stamps: time by phase, the launch from end to end, and what stamping costs.

Cycles of `%clock` become microseconds by the SM clock, which is measured in the launches themselves: each warp reads
both clocks where it begins and where it ends, and all warps' cycles over all warps' nanoseconds is the clock. The
nanoseconds of one warp are coarse, for the global timer moves in steps; launches begin anywhere in a step, so that over
thousands of warps the rounding of begin and end cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError
from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.phases.stamps import (
    BEGIN_NS,
    END_NS,
    HEAD,
    SM,
    TOTAL,
    UNWRITTEN,
    StampedKernel,
    Stamps,
    WordArray,
)
from gdnbench.stats.estimators import interpolated_median
from gdnbench.stats.timer_resolution import infer_resolution_us

NsArray = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Timeline:
    """A launch from end to end, by the global timer, which all SMs share.

    Attributes:
        span_us: from the first warp's begin to the last one's end; the median over launches.
        skew_us: from the first warp's begin to the last one's begin; the median over launches.
        step_ns: the timer's step, the smallest that was seen.
        sm_mhz: the SM clock during the launches.
    """

    span_us: float
    skew_us: float
    step_ns: int
    sm_mhz: float


@dataclass(frozen=True)
class Overhead:
    """What stamping costs: medians of cold launches, side by side.

    Attributes:
        plain_us: of the kernel as it is.
        stamped_us: of the stamped one.
    """

    plain_us: float
    stamped_us: float

    @property
    def share(self) -> float:
        """What it adds, as a share of the kernel's own time."""
        return self.stamped_us / self.plain_us - 1


@dataclass(frozen=True)
class WarpRole:
    """Warps that pass the same phases: of a kernel whose warps do different work, its producers, say.

    Attributes:
        places: their numbers in a block, in ascending order; empty where they are not known, or some are those of
            another role's warps too. Warps of an idle block, which pass no phase, take no other role's numbers away.
        breakdown: their time by phase, in microseconds.
    """

    places: tuple[int, ...]
    breakdown: Breakdown


@dataclass(frozen=True)
class PhaseProfile:
    """What a file of stamps shows.

    Attributes:
        breakdown: time by phase, in microseconds, for the phases that some warp passed.
        roles: the same for the warps of each role, those with the most phases first; one where all warps do the same.
        unpassed: phases that no warp passed.
        crossed: phases that read less than nothing in some warp: the clock at their end was read before that at their
            beginning. What they lack is in the phases that the warp passed before and after; the sum is right.
        unmarked: the numbers in a block of warps without a record in any launch, in all blocks: there are no marks on
            their way, as on that of warps which only give their registers to others. They are left out.
        silent: other warps without a record in some launch; they are left out.
        timeline: the launch from end to end.
        overhead: what stamping costs.
    """

    breakdown: Breakdown
    roles: tuple[WarpRole, ...]
    unpassed: tuple[str, ...]
    crossed: tuple[str, ...]
    unmarked: tuple[int, ...]
    silent: int
    timeline: Timeline
    overhead: Overhead


def analyse(stamps: Stamps) -> PhaseProfile:
    """Time by phase, the launch from end to end, and what stamping costs.

    Raises:
        ProfilerError: if no warp wrote a record, or the clocks stand still.
    """
    written_in = stamps.records[:, :, SM] != UNWRITTEN
    written = written_in.all(axis=0)
    if not written.any():
        raise ProfilerError(
            f"no warp of {stamps.about.label} wrote a record in every launch",
            "GDNBENCH_PHASES_BEGIN() stands first in the kernel, before any return",
        )
    records = stamps.records[:, written]
    timeline = _timeline(records)
    breakdown = _breakdown(records, stamps.about.phases, timeline.sm_mhz)
    roles = _roles(records, np.flatnonzero(written), stamps.about, timeline.sm_mhz)
    unpassed = tuple(name for name in stamps.about.phases if name not in breakdown.phases)
    crossed = tuple(name for name, durations in breakdown.phases.items() if np.nanmin(durations) < 0)
    place = _places(stamps)
    unmarked = np.setdiff1d(place, place[written_in.any(axis=0)])
    silent = int((~written & ~np.isin(place, unmarked)).sum())
    return PhaseProfile(
        breakdown, roles, unpassed, crossed, tuple(unmarked.tolist()), silent, timeline, _overhead(stamps)
    )


def _places(stamps: Stamps) -> IntArray:
    """Each warp's number in its block; 0 for all where a block's warps are not known."""
    numbers = np.arange(stamps.records.shape[1])
    return numbers % (stamps.about.block_warps or 1)


def _breakdown(records: WordArray, names: tuple[str, ...], sm_mhz: float) -> Breakdown:
    phases = {}
    for number, name in enumerate(names):
        # A sum of differences of 32 bits, which wraps where marks have changed places; none is as long as 2^31 cycles.
        cycles = records[:, :, HEAD + number].astype(np.uint32).view(np.int32)
        if cycles.any():  # a phase that was passed took a cycle at least
            phases[name] = np.where(cycles != 0, cycles / sm_mhz, np.nan)
    return Breakdown(phases, records[:, :, TOTAL] / sm_mhz)


def _roles(records: WordArray, numbers: IntArray, about: StampedKernel, sm_mhz: float) -> tuple[WarpRole, ...]:
    """The roles of warps, by the phases that each has ever passed.

    A warp that passed some of the phases of another one is of its role: it had less to do, as at the end of a grid.

    Args:
        records: of the warps that wrote one in every launch.
        numbers: of these warps in the grid.
        about: what was stamped.
        sm_mhz: the SM clock.
    """
    passed: BoolArray = np.any(records[:, :, HEAD:], axis=0)
    patterns: list[BoolArray] = list(np.unique(passed, axis=0))
    whole: list[BoolArray] = []  # each a part of no other
    for pattern in sorted(patterns, key=lambda pattern: -int(pattern.sum())):
        if not pattern.any() or not any((pattern <= larger).all() for larger in whole):
            whole.append(pattern)
    role_of = np.array([_smallest_around(pattern, whole) for pattern in passed])
    members = [np.flatnonzero(role_of == role) for role in range(len(whole))]
    places = [set((numbers[warps] % about.block_warps).tolist()) if about.block_warps else set() for warps in members]
    busy = [own for own, phases in zip(places, whole, strict=True) if phases.any()]
    are_apart = [all(own is other or own.isdisjoint(other) for other in busy) for own in places]
    return tuple(
        WarpRole(tuple(sorted(own)) if is_apart else (), _breakdown(records[:, warps], about.phases, sm_mhz))
        for own, is_apart, warps in zip(places, are_apart, members, strict=True)
    )


def _smallest_around(pattern: BoolArray, whole: Sequence[BoolArray]) -> int:
    """The index of the smallest set of phases that holds a warp's; of none, that which is empty."""
    around = [role for role, larger in enumerate(whole) if (pattern <= larger).all()]
    return min(around, key=lambda role: int(whole[role].sum()))


def _timeline(records: WordArray) -> Timeline:
    begin, end = (_since_first(records, word) for word in (BEGIN_NS, END_NS))
    lasted = end - begin
    if lasted.sum() <= 0:
        raise ProfilerError("the GPU's global timer did not move during the launches", "profile a larger workload")
    cycles = records[:, :, TOTAL].sum(dtype=np.int64)
    if not cycles:
        raise ProfilerError("no warp counted a cycle during the launches", "stamp the kernel again")
    first = begin.min(axis=1)
    return Timeline(
        span_us=float(np.median(end.max(axis=1) - first)) / 1e3,
        skew_us=float(np.median(begin.max(axis=1) - first)) / 1e3,
        step_ns=_step(np.stack([begin, end], axis=1)),
        sm_mhz=float(cycles / lasted.sum()) * 1e3,
    )


def _since_first(records: WordArray, word: int) -> NsArray:
    """Nanoseconds since a warp's begin in the same launch; the low word wraps every 4.3 s, differences do not."""
    origin = records[:, :1, BEGIN_NS]
    return (records[:, :, word] - origin).view(np.int32).astype(np.int64)


def _step(times: NsArray) -> int:
    """The smallest step between different times of a launch, in ns; 0 where they are all the same."""
    steps = (np.diff(np.unique(launch)) for launch in times.reshape(len(times), -1))
    return min((int(step.min()) for step in steps if step.size), default=0)


def _overhead(stamps: Stamps) -> Overhead:
    tick = infer_resolution_us(np.concatenate([stamps.plain_us, stamps.stamped_us]))
    return Overhead(interpolated_median(stamps.plain_us, tick), interpolated_median(stamps.stamped_us, tick))
