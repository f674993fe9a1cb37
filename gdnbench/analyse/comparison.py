"""Compares sources side by side for `gdnbench compare`, and checks `--fail-on`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase

from gdnbench.analyse.conditions import warnings_of
from gdnbench.analyse.expected import ExpectedTime, expect
from gdnbench.analyse.figure import FigureSource
from gdnbench.analyse.grid import (
    DEFAULT_COLUMNS,
    FigureGrid,
    GridRow,
    KeyValues,
    default_rows,
    entries_of,
    filter_entries,
    join,
    parse_keys,
)
from gdnbench.analyse.ratio import (
    CompareSettings,
    GeometricMean,
    PairOf,
    TimeRatio,
    compare_column,
    geometric_mean,
    is_no_kernel,
    timed_pair,
)
from gdnbench.analyse.run_change import RunPair, TimeKind
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model.status import Status
from gdnbench.stats.interval import Verdict, margin_edges

_FAIL_ON = re.compile(r"slower(?::(?P<margin>\d+(?:\.\d*)?|\.\d+)%)?")


@dataclass(frozen=True)
class ColumnComparison:
    """A later column against the first.

    Attributes:
        ratios: one for each row; None where a side has no time.
        expected: for each row, the time to expect from the GPUs alone; None within one GPU model.
        runs: for each pair of runs in it, their letters and how they differ as a whole.
        paired: whether it has figures of one run, paired by round.
    """

    ratios: tuple[TimeRatio | None, ...]
    expected: tuple[ExpectedTime | None, ...]
    mean: GeometricMean | None
    runs: tuple[tuple[str, str, RunPair], ...]
    paired: bool


@dataclass(frozen=True)
class SourceComparison:
    """Sources joined and compared; `letters` name the sources in a table, `A`, `B`, ….

    `columns` are the second and all later columns of the grid against its first.
    """

    sources: tuple[FigureSource, ...]
    letters: tuple[str, ...]
    grid: FigureGrid
    columns: tuple[ColumnComparison, ...]
    warnings: tuple[str, ...]
    settings: CompareSettings

    @property
    def shown_clock(self) -> TimeKind:
        """The kind of time in the table: kernel times if every ratio is of them."""
        kinds = {ratio.kind for column in self.columns for ratio in column.ratios if ratio}
        return TimeKind.KERNEL if kinds == {TimeKind.KERNEL} else TimeKind.STREAM

    @property
    def headings(self) -> tuple[str, ...]:
        """A short name for each column of the grid: a source's letter where columns are sources."""
        names = {source.name: letter for source, letter in zip(self.sources, self.letters, strict=True)}
        if self.grid.column_keys == DEFAULT_COLUMNS:
            return tuple(names[column[0]] for column in self.grid.columns)
        return tuple(" ".join(_named(self.grid.column_keys, column, names)) for column in self.grid.columns)


def _named(keys: KeyValues, values: KeyValues, letters: dict[str, str]) -> list[str]:
    """A column's values; those of axes and params with their key, since a bare number says nothing."""
    return [
        letters[value] if key == "run" else f"{key}={value or 'none'}" if key.isupper() else value or f"no {key}"
        for key, value in zip(keys, values, strict=True)
    ]


def compare_sources(
    sources: Sequence[FigureSource], *, rows: str, columns: str, filtered: str, settings: CompareSettings
) -> SourceComparison:
    """Puts sources with different names into a grid and compares each later column with the first.

    `rows` and `columns` are keys, separated by commas; empty `rows` are those that identify a case, empty `columns` the
    sources. `filtered` is as `filter_entries` takes it.

    Raises:
        UsageError: for invalid keys or filter, more sources than letters, or figures with no case in common.
        UnknownNameError: for a key that the figures do not have.
    """
    if len(sources) > len(ascii_uppercase):
        raise UsageError(f"{len(sources)} sources are too many", f"at most {len(ascii_uppercase)}")
    everything = entries_of(sources)
    column_keys = parse_keys("--cols", columns, everything) if columns else DEFAULT_COLUMNS
    chosen = filter_entries(everything, filtered)
    row_keys = parse_keys("--rows", rows, everything) if rows else default_rows(column_keys, everything)
    twice = [key for key in row_keys if key in column_keys]
    if twice:
        raise UsageError(f"{twice[0]} is in --rows and in --cols", "leave it out of one")
    grid = join(chosen, row_keys, column_keys)
    letters = dict(zip((source.name for source in sources), ascii_uppercase, strict=False))
    pair_of = _cached_pairs({source.name: source for source in sources})
    return SourceComparison(
        sources=tuple(sources),
        letters=tuple(letters.values()),
        grid=grid,
        columns=tuple(_column(grid, index, pair_of, settings, letters) for index in range(1, len(grid.columns))),
        warnings=tuple(warnings_of(grid, sources, list(letters.values()))),
        settings=settings,
    )


def _cached_pairs(sources: dict[str, FigureSource]) -> PairOf:
    @cache
    def between(left: str, right: str) -> RunPair:
        return RunPair(sources[left], sources[right])

    return lambda left, right: between(left.name, right.name)


def _column(
    grid: FigureGrid, index: int, pair_of: PairOf, settings: CompareSettings, letters: dict[str, str]
) -> ColumnComparison:
    ratios = compare_column(grid.rows, index, pair_of, settings)
    mean = geometric_mean(grid.rows, ratios, index, pair_of, settings)
    pairs = [pair for row in grid.rows if (pair := timed_pair(row, index))]
    sources = {(left.source.name, right.source.name): (left.source, right.source) for left, right in pairs}
    runs = [
        (letters[one.name], letters[other.name], pair_of(one, other))
        for one, other in sources.values()
        if one is not other and one.is_measured and other.is_measured
    ]
    return ColumnComparison(
        ratios=ratios,
        expected=tuple(_expected(row, index) for row in grid.rows),
        mean=mean,
        runs=tuple(runs),
        paired=any(one is other for one, other in sources.values()),
    )


def _expected(row: GridRow, index: int) -> ExpectedTime | None:
    """Returns the expectation for a row whose sides are on two GPU models, or None for any other."""
    pair = timed_pair(row, index)
    if not pair:
        return None
    left, right = pair
    if not left.source.gpu or not right.source.gpu or left.source.gpu == right.source.gpu:
        return None
    kernels = left.figure.by_kernel_time(), right.figure.by_kernel_time()
    if kernels[0] and kernels[1]:
        return expect(kernels[0], kernels[1], left.source.by_kernel_time(), right.source.by_kernel_time())
    return expect(left.figure, right.figure, left.source, right.source)


@dataclass(frozen=True)
class RegressionCheck:
    """The result of `--fail-on` in the last column.

    Attributes:
        slower: rows whose whole interval lies beyond the margin.
        failed: rows that have a time in the first column and failed in the last.
        undecided: rows whose interval crosses the margin or is unknown, or that a stopped run did not reach.
    """

    slower: tuple[GridRow, ...]
    failed: tuple[GridRow, ...]
    undecided: tuple[GridRow, ...]

    def exit_code(self, *, strict: bool) -> ExitCode:
        """REGRESSION where something is slower or failed; if `strict`, NOISY where something is undecided."""
        if self.slower or self.failed:
            return ExitCode.REGRESSION
        return ExitCode.NOISY if strict and self.undecided else ExitCode.OK


def parse_fail_on(text: str, margin: float) -> float:
    """The margin of `slower:1%` as a ratio, and `margin` for `slower`; UsageError for other text."""
    found = _FAIL_ON.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--fail-on {text!r} is not a condition", "as in --fail-on slower or --fail-on slower:1%")
    return float(found["margin"]) / 100.0 if found["margin"] else margin


def check_regressions(rows: Sequence[GridRow], ratios: Sequence[TimeRatio | None], margin: float) -> RegressionCheck:
    """Judges the last column against the first, without floors, which belong to the machine and not to the code.

    `ratios` are those of the last column, compared at the same margin.
    """
    slower, failed, undecided = [], [], []
    for row, ratio in zip(rows, ratios, strict=True):
        first, last = row.entries[0], row.entries[-1]
        if not first or not last or is_no_kernel(first) or first.figure.status is not Status.OK:
            continue
        if last.figure.status is Status.NOT_RUN:
            undecided.append(row)
        elif last.figure.status.is_failure:
            failed.append(row)
        elif ratio and ratio.comparison and ratio.comparison.verdict is Verdict.SLOWER:
            slower.append(row)
        elif ratio and not _is_not_slower(ratio, margin):
            undecided.append(row)
    return RegressionCheck(tuple(slower), tuple(failed), tuple(undecided))


def _is_not_slower(ratio: TimeRatio, margin: float) -> bool:
    """Whether the whole interval lies above the lower edge of the margin: SAME, FASTER or across both."""
    return ratio.comparison is not None and ratio.comparison.speedup.low >= margin_edges(margin)[0]
