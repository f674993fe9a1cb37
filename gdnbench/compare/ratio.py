"""One column against the first: a ratio for each case, its interval where both sides were measured, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gdnbench.compare.figure import Kind, Source
from gdnbench.compare.join import Row
from gdnbench.compare.keys import Entry
from gdnbench.compare.shift import Shift
from gdnbench.errors import UsageError
from gdnbench.model import Role, Status
from gdnbench.stats import Comparison, compare_family
from gdnbench.stats.unpaired import Blur, UnpairedLogRatio, compare_unpaired, unpaired_log_ratio

NO_ROUNDS = "not measured here"
OTHER_TIMER = "the timers differ"

T = TypeVar("T")
ShiftOf = Callable[[Source, Source], Shift | None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to compare.

    Attributes:
        margin: differences up to this ratio count as none.
        confidence: of each column's family of comparisons, between 0 and 1.
        raw: whether the common shift stays in the ratios.
    """

    margin: float
    confidence: float = 0.95
    raw: bool = False


def check_settings(margin: float, *, raw: bool, strict: bool, gate: str) -> Settings:
    """The settings of a command line.

    Raises:
        UsageError: if the margin is no small positive ratio, or `strict` stands without a gate.
    """
    if not 0.0 <= margin < 1.0:
        raise UsageError(f"a margin of {margin:g} is no relative difference", "0.005 is half a percent")
    if strict and not gate:
        raise UsageError("--strict needs --fail-on", "as in --fail-on slower:1% --strict")
    return Settings(margin=margin, raw=raw)


@dataclass(frozen=True)
class Ratio:
    """A later figure against the first.

    Attributes:
        value: time of the first / time of the later: above 1 the later is faster.
        comparison: its interval and verdict; None where there can be none.
        untold: why there is none.
    """

    value: float
    comparison: Comparison | None = None
    untold: str = ""


def compare_column(rows: Sequence[Row], column: int, shift_of: ShiftOf, settings: Settings) -> tuple[Ratio | None, ...]:
    """Compares a column with the first, row by row; None where a side has no time.

    Figures of one run are paired by round, as `run` does; others are compared by their mean log times. Each kind is a
    family of its own for Holm's correction, in which floors have no part: they are no claims, but what claims rest on.
    """
    pairs = {index: pair for index, row in enumerate(rows) if (pair := timed_pair(row, column))}
    told = {index: pair for index, pair in pairs.items() if _has_rounds(*pair) and same_timer(*pair)}
    paired = {
        index: (right.figure.rounds_us, left.figure.rounds_us)
        for index, (left, right) in told.items()
        if same_run(left, right)
    }
    apart = {
        index: unpaired(left, right, shift_of, settings) for index, (left, right) in told.items() if index not in paired
    }
    limits = {"margin": settings.margin, "confidence": settings.confidence}
    found: dict[int, Comparison] = {}
    for rounds in _families(paired, pairs):
        found |= compare_family(rounds, **limits)
    for ratios in _families(apart, pairs):
        found |= compare_unpaired(ratios, **limits)
    return tuple(_ratio(*pairs[index], found.get(index)) if index in pairs else None for index in range(len(rows)))


def timed_pair(row: Row, column: int) -> tuple[Entry, Entry] | None:
    """A row's first and later figure, if both have a time."""
    left, right = row.entries[0], row.entries[column]
    if left and right and left.figure.status is Status.OK and right.figure.status is Status.OK:
        return left, right
    return None


def same_run(left: Entry, right: Entry) -> bool:
    """Whether both were measured in the same rounds."""
    return left.source is right.source and left.figure.rounds_us.shape == right.figure.rounds_us.shape


def same_timer(left: Entry, right: Entry) -> bool:
    """Whether both time the same span: one timer's holds the launch, another's does not."""
    return left.figure.timer == right.figure.timer


def unpaired(left: Entry, right: Entry, shift_of: ShiftOf, settings: Settings) -> UnpairedLogRatio:
    """The log-ratio of two figures of different runs, with what blurs it beside the rounds.

    The A/A noise of both sides is added as a half-width of its own; between runs of one GPU model the common shift is
    taken out, or stays in and counts as a bias if `raw`.
    """
    noise = float(np.hypot(_noise(left), _noise(right)))
    shared = shift_of(left.source, right.source)
    shift = shared.estimate(right.figure.kernel) if shared else None
    blurs: tuple[Blur, ...] = (shift.of_a_case,) if shift else ()
    ratio = unpaired_log_ratio(right.figure.rounds_us, left.figure.rounds_us, blurs=blurs, noise=noise)
    if shift is None:
        return ratio
    if settings.raw:
        return UnpairedLogRatio(ratio.mean, ratio.blurs, ratio.noise, abs(shift.mean))
    return UnpairedLogRatio(ratio.mean - shift.mean, ratio.blurs, ratio.noise)


def is_floor(entry: Entry) -> bool:
    """Whether it bounds what is possible, rather than being a kernel."""
    return entry.figure.role is Role.FLOOR


def _has_rounds(left: Entry, right: Entry) -> bool:
    measured = left.source.kind is Kind.MEASURED and right.source.kind is Kind.MEASURED
    return measured and all(np.isfinite(entry.figure.rounds_us).any() for entry in (left, right))


def _noise(entry: Entry) -> float:
    return entry.source.noise.get(entry.figure.shape, 0.0)


def _families(told: Mapping[int, T], pairs: Mapping[int, tuple[Entry, Entry]]) -> tuple[dict[int, T], dict[int, T]]:
    """Kernels and floors, each corrected for their own number."""
    floors = {index: one for index, one in told.items() if is_floor(pairs[index][0])}
    return {index: one for index, one in told.items() if index not in floors}, floors


def _ratio(left: Entry, right: Entry, comparison: Comparison | None) -> Ratio:
    if comparison:
        return Ratio(comparison.speedup.estimate, comparison)
    return Ratio(left.figure.time_us / right.figure.time_us, untold=_untold(left, right))


def _untold(left: Entry, right: Entry) -> str:
    both_measured = left.source.kind is Kind.MEASURED and right.source.kind is Kind.MEASURED
    return NO_ROUNDS if same_timer(left, right) or not both_measured else OTHER_TIMER
