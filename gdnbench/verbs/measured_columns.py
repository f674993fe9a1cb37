"""Columns of measurements: times, shares of the bound, ratios to the baseline, verdicts, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from rich.text import Text

from gdnbench.model.measurement import Measurement, Place, Versus
from gdnbench.model.status import Role
from gdnbench.render.table import Column
from gdnbench.render.units import (
    StoredInterval,
    count_text,
    factor,
    number,
    plus_minus,
    relative_half_width,
    time_unit,
    verdict_cell,
)
from gdnbench.stats.interval import Verdict

R = TypeVar("R")

PLACE_WORDS = {Place.BEST: "BEST", Place.TIED: "TIES", Place.UNCLEAR: "UNCLEAR", Place.SLOWER: "SLOWER"}


def time_column(name: str, rows: Iterable[R], of: Callable[[R], Measurement | None], *, drop: int = 0) -> Column[R]:
    """Returns the column of the times of `of(row)`, in one unit; rows sort by microseconds."""
    unit = time_unit(row.timing.time_us for row in map(of, rows) if row and row.timing)

    def value(row: R) -> StoredInterval | None:
        timed = of(row)
        timing = timed.timing if timed else None
        return StoredInterval(timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else None

    def show(row: R) -> str:
        time = value(row)
        return unit.text(time.estimate) + plus_minus(time.relative_half_width) if time else ""

    return Column("", value, f"{name} {unit.name}", show, drop=drop, right=True)


def timing_column(
    heading: str,
    of: Callable[[R], Measurement | None],
    field: str,
    text: Callable[[float], str] = number,
    *,
    drop: int = 0,
) -> Column[R]:
    """Returns the column of a number that the timing of `of(row)` has, empty without a time."""

    def value(row: R) -> float:
        timed = of(row)
        return float(getattr(timed.timing, field)) if timed and timed.timing else math.nan

    return Column("", value, heading, lambda row: text(value(row)), drop=drop, right=True)


def bound_column(heading: str, of: Callable[[R], Measurement | None], *, drop: int = 0) -> Column[R]:
    """Returns the column of the bound's time over this time, `91.7%`; empty for a floor."""

    def working(row: R) -> Measurement | None:
        timed = of(row)
        return timed if timed and timed.role.does_the_work else None

    return timing_column(heading, working, "sol", lambda share: number(share, ".1%"), drop=drop)


def count_column(heading: str, value: Callable[[R], int]) -> Column[R]:
    """Returns a column of whole numbers; one below 0 stands for unknown."""
    return Column("", value, heading, lambda row: count_text(value(row)), right=True)


def ratio_column(heading: str, of: Callable[[R], Measurement], *, drop: int = 0) -> Column[R]:
    """Returns the column of the ratio to the baseline, 1 for the baseline itself."""

    def value(row: R) -> StoredInterval | float | None:
        measured = of(row)
        versus = measured.versus
        if measured.role is Role.BASELINE:
            return 1.0
        return StoredInterval(versus.speedup, versus.low, versus.high) if versus else None

    def show(row: R) -> Text:
        return Text(ratio_text(of(row)), style="dim" if of(row).role is Role.BASELINE else "")

    return Column("", value, heading, show, drop=drop, right=True)


def ratio_text(row: Measurement) -> str:
    """Returns the ratio to the baseline, `1` for the baseline itself; empty for a row without one."""
    if row.role is Role.BASELINE:
        return "1"
    return speedup_text(row.versus) if row.versus else ""


def speedup_text(versus: Versus) -> str:
    """Formats a speedup over the baseline with half of its interval: `1.159x ±0.17%`."""
    if not math.isfinite(versus.high):
        return factor(versus.speedup)
    return factor(versus.speedup) + plus_minus(relative_half_width(versus.speedup, versus.low, versus.high))


def verdict_column(of: Callable[[R], Measurement]) -> Column[R]:
    """Returns the column of the verdict against the baseline, or of the role of a row that has none."""

    def value(row: R) -> Role | Verdict | None:
        measured = of(row)
        if not measured.role.does_the_work or measured.role is Role.BASELINE:
            return measured.role
        return Verdict(measured.versus.verdict) if measured.versus and measured.versus.verdict else None

    def show(row: R) -> Text:
        found = value(row)
        return Text(found.value, style="dim") if isinstance(found, Role) else verdict_cell(found.value if found else "")

    return Column("", value, "verdict", show)
