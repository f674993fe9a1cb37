"""Durations of the named phases inside a kernel, by launch and warp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gdnbench.stats import FloatArray

BETWEEN = "(between)"
TOTAL = "total"


@dataclass(frozen=True)
class Breakdown:
    """Durations by phase.

    Attributes:
        phases: by name, in the order in which they run: an array [launches, warps]. A phase that a warp runs several
            times is summed; NaN where a warp does not run it.
        totals: an array [launches, warps]: from the begin of a warp's first phase to the end of its last one.
        unit: of all durations: `µs`, or `cycles` if the clock is unknown.
        nested: phases inside others, whose time includes theirs.
    """

    phases: Mapping[str, FloatArray] = field(repr=False)
    totals: FloatArray = field(repr=False)
    unit: str = "µs"
    nested: frozenset[str] = frozenset()

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
        named = {**self.phases, BETWEEN: between, TOTAL: self.totals}
        return tuple(_row(name, durations, self.totals) for name, durations in named.items())


@dataclass(frozen=True)
class PhaseRow:
    """One phase over all warps of all launches, in the breakdown's unit.

    `share` is of the time of all warps, from 0 to 1. `average` is over the warps that run the phase. `spread` is the
    95th minus the 5th percentile over the warps of a launch, averaged over launches: how unequally warps are served.
    """

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
