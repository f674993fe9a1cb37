"""Analyses stamps: time by phase, launch and warp, the launch from end to end, and the overhead of stamping.

Cycles of `%clock` become microseconds by the SM clock, which the launches themselves measure: each warp reads both
clocks at its begin and its end, and the SM clock is all warps' cycles over all warps' nanoseconds. The global timer
moves in steps, so one warp's nanoseconds are coarse; launches begin anywhere in a step, so that over thousands of warps
the rounding of begin and end cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError
from gdnbench.profile.stamps import BEGIN_NS, END_NS, HEAD, SM, TOTAL, UNWRITTEN, StampedKernel, Stamps, WordArray
from gdnbench.stats import FloatArray
from gdnbench.stats.estimators import infer_resolution_us, interpolated_median

BETWEEN = "(between)"
WHOLE = "total"


@dataclass(frozen=True)
class Breakdown:
    """Durations by phase, in microseconds."""

    # by name, in the order in which they run: an array [launches, warps]. A phase that a warp runs several times is
    # summed; NaN where a warp does not run it
    phases: Mapping[str, FloatArray] = field(repr=False)
    # an array [launches, warps]: from the begin of a warp's first phase to the end of its last one
    totals: FloatArray = field(repr=False)
    nested: frozenset[str] = frozenset()  # phases inside others, whose time includes theirs

    @property
    def launches(self) -> int:
        """Number of launches."""
        return int(self.totals.shape[0])

    @property
    def warps(self) -> int:
        """Number of warps of one launch."""
        return int(self.totals.shape[1])

    def rows(self) -> tuple[PhaseRow, ...]:
        """Returns a row a phase, one for the time between phases, and the total; shares of outer phases add to 1."""
        between = self.totals.copy()
        for name, durations in self.phases.items():
            if name not in self.nested:
                between -= np.nan_to_num(durations)
        named = {**self.phases, BETWEEN: between, WHOLE: self.totals}
        return tuple(_row(name, durations, self.totals) for name, durations in named.items())


@dataclass(frozen=True)
class PhaseRow:
    """One phase over all warps that run it, in µs; `share` is of the time of all warps, from 0 to 1."""

    name: str
    share: float
    average: float
    minimum: float
    p95: float
    maximum: float
    spread: float


def _row(name: str, durations: FloatArray, totals: FloatArray) -> PhaseRow:
    launches = durations[~np.isnan(durations).all(axis=1)]
    low, high = np.nanpercentile(launches, [5, 95], axis=1)
    spent = float(np.sum(totals))
    return PhaseRow(
        name,
        share=float(np.nansum(durations)) / spent if spent else 0.0,  # a warp without a mark may have spent none
        average=float(np.nanmean(durations)),
        minimum=float(np.nanmin(durations)),
        p95=float(np.nanpercentile(durations, 95)),
        maximum=float(np.nanmax(durations)),
        spread=float(np.mean(high - low)),
    )


NsArray = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Timeline:
    """A launch from end to end, by the global timer, which all SMs share."""

    span_us: float  # from the first warp's begin to the last warp's end; the median over launches
    skew_us: float  # from the first warp's begin to the last warp's begin; the median over launches
    step_ns: int  # the timer's step, the smallest seen
    sm_mhz: float


@dataclass(frozen=True)
class Overhead:
    """What stamping costs: medians of interleaved cold launches of the plain and the stamped kernel."""

    plain_us: float
    stamped_us: float

    @property
    def share(self) -> float:
        """The added time as a share of the plain kernel's."""
        return self.stamped_us / self.plain_us - 1


@dataclass(frozen=True)
class WarpRole:
    """Warps that pass the same phases, such as the producers of a kernel whose warps do different work."""

    # index in its block of each warp of `breakdown`; 0 for all if the warps of a block are unknown
    place_of: IntArray = field(repr=False)

    # their indices in a block, ascending; empty if unknown, or if some also belong to another role's warps. Warps of an
    # idle block, which pass no phase, take no indices from other roles
    places: tuple[int, ...]
    breakdown: Breakdown  # their time by phase

    def by_place(self) -> dict[int, dict[str, float]]:
        """Returns the average µs by phase, and in all, of the warps at each place of a block, over all launches."""
        timed = {**self.breakdown.phases, WHOLE: self.breakdown.totals}
        passed = {
            place: {name: durations[:, self.place_of == place] for name, durations in timed.items()}
            for place in np.unique(self.place_of).tolist()
        }
        return {
            place: {name: float(np.nanmean(own)) for name, own in durations.items() if not np.isnan(own).all()}
            for place, durations in passed.items()
        }


@dataclass(frozen=True)
class PhaseProfile:
    """The analysis of a file of stamps."""

    breakdown: Breakdown  # time by phase, of the phases that some warp passed
    # the same for the warps of each role, those with the most phases first; one role if all warps do the same
    roles: tuple[WarpRole, ...]
    unpassed: tuple[str, ...]  # phases that no warp passed
    # indices in a block of warps without a record in any launch, in all blocks: their path has no marks, as for warps
    # that only give their registers to others. They are left out
    unmarked: tuple[int, ...]
    silent: int  # number of other warps without a record in some launch; they are left out
    timeline: Timeline
    overhead: Overhead


def analyse(stamps: Stamps) -> PhaseProfile:
    """Analyses stamps; raises ProfilerError if no warp wrote a record, or a clock stands still."""
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
    place = _places(stamps)
    unmarked = np.setdiff1d(place, place[written_in.any(axis=0)])
    silent = int((~written & ~np.isin(place, unmarked)).sum())
    return PhaseProfile(breakdown, roles, unpassed, tuple(unmarked.tolist()), silent, timeline, _overhead(stamps))


def _places(stamps: Stamps) -> IntArray:
    """Returns each warp's index in its block; 0 for all if the warps of a block are unknown."""
    numbers = np.arange(stamps.records.shape[1])
    return numbers % (stamps.about.block_warps or 1)


def _breakdown(records: WordArray, names: tuple[str, ...], sm_mhz: float) -> Breakdown:
    phases = {}
    for number, name in enumerate(names):
        # None reaches 2^31 cycles; older files have negative ones, of clocks that ptxas read a second time.
        cycles = records[:, :, HEAD + number].astype(np.uint32).view(np.int32)
        if cycles.any():  # a passed phase takes a cycle at least
            phases[name] = np.where(cycles != 0, cycles / sm_mhz, np.nan)
    return Breakdown(phases, records[:, :, TOTAL] / sm_mhz)


def _roles(records: WordArray, numbers: IntArray, about: StampedKernel, sm_mhz: float) -> tuple[WarpRole, ...]:
    """Groups warps into roles by the phases that each has ever passed.

    A warp that passed a subset of another's phases has its role: it had less to do, as at the end of a grid. `records`
    are of the warps that wrote one in every launch, `numbers` these warps' indices in the grid.
    """
    passed: BoolArray = np.any(records[:, :, HEAD:], axis=0)
    patterns: list[BoolArray] = list(np.unique(passed, axis=0))
    whole: list[BoolArray] = []  # none is a subset of another
    for pattern in sorted(patterns, key=lambda pattern: -int(pattern.sum())):
        if not pattern.any() or not any((pattern <= larger).all() for larger in whole):
            whole.append(pattern)
    role_of = np.array([_smallest_around(pattern, whole) for pattern in passed])
    members = [np.flatnonzero(role_of == role) for role in range(len(whole))]
    place_of = [numbers[warps] % (about.block_warps or 1) for warps in members]
    places = [set(found.tolist()) if about.block_warps else set() for found in place_of]
    busy = [own for own, phases in zip(places, whole, strict=True) if phases.any()]
    are_apart = [all(own is other or own.isdisjoint(other) for other in busy) for own in places]
    return tuple(
        WarpRole(found, tuple(sorted(own)) if is_apart else (), _breakdown(records[:, warps], about.phases, sm_mhz))
        for found, own, is_apart, warps in zip(place_of, places, are_apart, members, strict=True)
    )


def _smallest_around(pattern: BoolArray, whole: Sequence[BoolArray]) -> int:
    """Returns the index of the smallest set of phases that contains `pattern`; the empty set if that is empty."""
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
    """Returns nanoseconds since the first warp's begin; the low word wraps every 4.3 s, differences do not."""
    origin = records[:, :1, BEGIN_NS]
    return (records[:, :, word] - origin).view(np.int32).astype(np.int64)


def _step(times: NsArray) -> int:
    steps = (np.diff(np.unique(launch)) for launch in times.reshape(len(times), -1))
    return min((int(step.min()) for step in steps if step.size), default=0)


def _overhead(stamps: Stamps) -> Overhead:
    tick = infer_resolution_us(np.concatenate([stamps.plain_us, stamps.stamped_us]))
    return Overhead(interpolated_median(stamps.plain_us, tick), interpolated_median(stamps.stamped_us, tick))
