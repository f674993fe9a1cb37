"""Analyses stamps: time by phase, the launch from end to end, and what stamping costs.

Cycles of `%clock` become microseconds by the SM clock, which is measured in the launches themselves: each warp reads
both clocks where it begins and where it ends, and all warps' cycles over all warps' nanoseconds is the clock. The
nanoseconds of one warp are coarse, for the global timer moves in steps; launches begin anywhere in a step, so that over
thousands of warps the rounding of begin and end cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError
from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.phases.stamps import BEGIN_NS, END_NS, HEAD, SM, TOTAL, UNWRITTEN, Stamps, WordArray
from gdnbench.stats.estimators import interpolated_median
from gdnbench.stats.timer_resolution import infer_resolution_us

NsArray = npt.NDArray[np.int64]


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
class PhaseProfile:
    """What a file of stamps shows.

    Attributes:
        breakdown: time by phase, in microseconds, for the phases that some warp passed.
        unpassed: phases that no warp passed.
        crossed: phases that read less than nothing in some warp: the clock at their end was read before that at their
            beginning. What they lack is in the phases that the warp passed before and after; the sum is right.
        silent: warps without a record in some launch; they are left out.
        timeline: the launch from end to end.
        overhead: what stamping costs.
    """

    breakdown: Breakdown
    unpassed: tuple[str, ...]
    crossed: tuple[str, ...]
    silent: int
    timeline: Timeline
    overhead: Overhead


def analyse(stamps: Stamps) -> PhaseProfile:
    """Time by phase, the launch from end to end, and what stamping costs.

    Raises:
        ProfilerError: if no warp wrote a record, or the clocks stand still.
    """
    written = (stamps.records[:, :, SM] != UNWRITTEN).all(axis=0)
    if not written.any():
        raise ProfilerError(
            f"no warp of {stamps.about.label} wrote a record in every launch",
            "GDNBENCH_PHASES_BEGIN() stands first in the kernel, before any return",
        )
    records = stamps.records[:, written]
    timeline = _timeline(records)
    breakdown = _breakdown(records, stamps.about.phases, timeline.sm_mhz)
    unpassed = tuple(name for name in stamps.about.phases if name not in breakdown.phases)
    crossed = tuple(name for name, durations in breakdown.phases.items() if np.nanmin(durations) < 0)
    return PhaseProfile(breakdown, unpassed, crossed, int((~written).sum()), timeline, _overhead(stamps))


def _breakdown(records: WordArray, names: tuple[str, ...], sm_mhz: float) -> Breakdown:
    phases = {}
    for number, name in enumerate(names):
        # A sum of differences of 32 bits, which wraps where marks have changed places; none is as long as 2^31 cycles.
        cycles = records[:, :, HEAD + number].astype(np.uint32).view(np.int32)
        if cycles.any():  # a phase that was passed took a cycle at least
            phases[name] = np.where(cycles != 0, cycles / sm_mhz, np.nan)
    return Breakdown(phases, records[:, :, TOTAL] / sm_mhz)


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
