"""Sources side by side: the whole of what `gdnbench compare` says, for any form of output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase

from gdnbench.compare.conditions import warnings_of
from gdnbench.compare.expected import Expectation, expect
from gdnbench.compare.figure import Source
from gdnbench.compare.filter import choose
from gdnbench.compare.join import Grid, Names, Row, join
from gdnbench.compare.keys import DEFAULT_COLUMNS, default_rows, entries_of, parse_keys
from gdnbench.compare.mean import mean_ratio
from gdnbench.compare.ratio import Ratio, Settings, ShiftOf, compare_column, timed_pair
from gdnbench.compare.shift import Shift, shift_between
from gdnbench.errors import UsageError
from gdnbench.stats import Interval


@dataclass(frozen=True)
class Mean:
    """The geometric mean of a column's ratios.

    Attributes:
        cases: how many; floors are not among them.
        value: the mean, above 1 the later column is faster.
        interval: None where some ratio has none, or they share no one uncertainty.
    """

    cases: int
    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Column:
    """A later column against the first.

    Attributes:
        ratios: one for each row; None where a side has no time.
        expected: what the GPUs alone would make of each time; None within one GPU model.
        mean: None where no row has a ratio.
        shifts: for each pair of runs of one GPU model that it holds, their letters and their common shift.
        paired: whether it holds figures of one run, paired by round.
    """

    ratios: tuple[Ratio | None, ...]
    expected: tuple[Expectation | None, ...]
    mean: Mean | None
    shifts: tuple[tuple[str, str, Shift], ...]
    paired: bool


@dataclass(frozen=True)
class SideBySide:
    """What is printed.

    Attributes:
        sources: what was named.
        letters: what a table calls them, `A`, `B`, ….
        grid: the figures in rows and columns.
        columns: the second and all later columns of the grid against its first.
        warnings: what else may explain a difference.
        settings: how it was compared.
    """

    sources: tuple[Source, ...]
    letters: tuple[str, ...]
    grid: Grid
    columns: tuple[Column, ...]
    warnings: tuple[str, ...]
    settings: Settings

    @property
    def headings(self) -> tuple[str, ...]:
        """A short name for each column of the grid: a source's letter where columns are sources."""
        names = {source.name: letter for source, letter in zip(self.sources, self.letters, strict=True)}
        if self.grid.column_keys == DEFAULT_COLUMNS:
            return tuple(names[column[0]] for column in self.grid.columns)
        return tuple(" ".join(_named(self.grid.column_keys, column, names)) for column in self.grid.columns)


def _named(keys: Names, values: Names, letters: dict[str, str]) -> list[str]:
    """A column's values; sizes and params with their key, since a bare number says nothing."""
    return [
        letters[value] if key == "run" else f"{key}={value or 'none'}" if key.isupper() else value or f"no {key}"
        for key, value in zip(keys, values, strict=True)
    ]


def compare_sources(
    sources: Sequence[Source], *, rows: str, columns: str, filtered: str, settings: Settings
) -> SideBySide:
    """Joins and compares.

    Args:
        sources: at least one, with different names.
        rows: keys, separated by commas; empty for those that tell a case.
        columns: keys; empty for the sources.
        filtered: as `choose` takes it; empty for everything.
        settings: margin, confidence, and whether the common shift stays in.

    Raises:
        UsageError: for a wrong key or filter, more sources than letters, or figures that cannot be set side by side.
    """
    if len(sources) > len(ascii_uppercase):
        raise UsageError(f"{len(sources)} sources are too many", f"at most {len(ascii_uppercase)}")
    everything = entries_of(sources)
    column_keys = parse_keys("--cols", columns, everything) if columns else DEFAULT_COLUMNS
    chosen = choose(everything, filtered)
    row_keys = parse_keys("--rows", rows, everything) if rows else default_rows(column_keys, everything)
    twice = [key for key in row_keys if key in column_keys]
    if twice:
        raise UsageError(f"{twice[0]} is in --rows and in --cols", "leave it out of one")
    grid = join(chosen, row_keys, column_keys)
    letters = dict(zip((source.name for source in sources), ascii_uppercase, strict=False))
    shift_of = _remembering({source.name: source for source in sources})
    return SideBySide(
        sources=tuple(sources),
        letters=tuple(letters.values()),
        grid=grid,
        columns=tuple(_column(grid, index, shift_of, settings, letters) for index in range(1, len(grid.columns))),
        warnings=tuple(warnings_of(grid, sources, list(letters.values()))),
        settings=settings,
    )


def _remembering(sources: dict[str, Source]) -> ShiftOf:
    """`shift_between`, asked once for each pair of runs."""

    @cache
    def between(left: str, right: str) -> Shift | None:
        return shift_between(sources[left], sources[right])

    return lambda left, right: between(left.name, right.name)


def _column(grid: Grid, index: int, shift_of: ShiftOf, settings: Settings, letters: dict[str, str]) -> Column:
    ratios = compare_column(grid.rows, index, shift_of, settings)
    mean = mean_ratio(grid.rows, ratios, index, shift_of, settings)
    pairs = [pair for row in grid.rows if (pair := timed_pair(row, index))]
    sources = {(left.source.name, right.source.name): (left.source, right.source) for left, right in pairs}
    shifts = [
        (letters[one.name], letters[other.name], shift)
        for one, other in sources.values()
        if one is not other and (shift := shift_of(one, other))
    ]
    return Column(
        ratios=ratios,
        expected=tuple(_expected(row, index) for row in grid.rows),
        mean=Mean(*mean) if mean else None,
        shifts=tuple(shifts),
        paired=any(one is other for one, other in sources.values()),
    )


def _expected(row: Row, index: int) -> Expectation | None:
    """Only of one case on two GPU models; kernels of one run are not told apart by their GPU."""
    pair = timed_pair(row, index)
    if not pair:
        return None
    left, right = pair
    if not left.source.gpu or not right.source.gpu or left.source.gpu == right.source.gpu:
        return None
    return expect(left.figure, right.figure, left.source, right.source)
