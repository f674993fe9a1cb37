"""What several clocks say of one launch, and what lies between them. Pure functions of stored rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gdnbench.model import Clock, Measurement, Role, Shape

Clocks = Mapping[Clock, Sequence[Measurement]]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What NVBench's time of a case holds beside the kernel's; microseconds, NaN where it is not known.

    Attributes:
        gap_us: NVBench's time less CUPTI's.
        launch_us: the same of the empty floor of the shape: events and launch, with no kernel to speak of.
    """

    gap_us: float = math.nan
    launch_us: float = math.nan

    @property
    def rest_us(self) -> float:
        """What is left of the gap."""
        return self.gap_us - self.launch_us

    def cells(self) -> dict[str, Any]:
        """As columns of a row; None where not known."""
        values = {**asdict(self), "rest_us": self.rest_us}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def gaps_of(measurements: Sequence[Measurement], clocks: Clocks) -> dict[str, Gap]:
    """The gap of every case that CUPTI has a time of, by case id.

    Args:
        measurements: by the run's own timer.
        clocks: by the further clocks.
    """
    cupti_us = {row.case.id: row.timing.time_us for row in clocks.get("cupti", ()) if row.timing}
    found = {
        row.case.id: (row, row.timing.time_us - cupti_us[row.case.id])
        for row in measurements
        if row.timing and row.case.id in cupti_us
    }
    launch_us: dict[Shape, float] = {}
    for row, gap_us in found.values():
        if is_empty_floor(row):
            launch_us[row.case.shape] = min(gap_us, launch_us.get(row.case.shape, math.inf))
    return {
        case_id: Gap(gap_us=gap_us, launch_us=launch_us.get(row.case.shape, math.nan))
        for case_id, (row, gap_us) in found.items()
    }


def is_empty_floor(row: Measurement) -> bool:
    """Whether the case is a floor that moves nothing: all of its time is launch."""
    return row.role is Role.FLOOR and row.nbytes == 0


def contradictions(measurements: Sequence[Measurement], clocks: Clocks) -> list[tuple[Measurement, Measurement]]:
    """Cases that one clock calls faster than the baseline and another slower: the run's own row, and the other's."""
    own = {row.case.id: row for row in measurements if row.role is Role.KERNEL and row.versus}
    return [
        (own[row.case.id], row)
        for rows in clocks.values()
        for row in rows
        if row.case.id in own and _verdicts(own[row.case.id], row) == {"faster", "slower"}
    ]


def _verdicts(*rows: Measurement) -> set[str]:
    return {row.versus.verdict for row in rows if row.versus}
