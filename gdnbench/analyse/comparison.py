"""Compares sources side by side for `gdnbench compare`, checks `--fail-on`, and names other causes of a difference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase

from gdnbench.analyse.figure import UNRECORDED_TRIM, Figure, FigureSource, differing_parts
from gdnbench.analyse.grid import (
    DEFAULT_COLUMNS,
    FigureGrid,
    GridEntry,
    GridRow,
    KeyValues,
    default_rows,
    entries_of,
    filter_entries,
    join,
    parse_keys,
    workload_keys,
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
from gdnbench.analyse.runs import StoredCase, StoredRun
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model.case import same_sources
from gdnbench.model.status import Status
from gdnbench.stats.interval import Verdict, margin_edges

Timed = Figure | StoredCase
CARD = "card"
SOURCE = "source"
PARAMS = "params"
METHOD = "method"
ANCHOR = "anchor"

_OF_THE_CARD = ("GPU", "memory clock", "highest SM clock", "power limit", "ECC")
_SHORT = 12  # characters of a commit, a card's id
_DEFAULTS = {"trim": UNRECORDED_TRIM, "inputs": "the first"}  # the values of runs that do not record them
_PLAIN = {"False": "default", "True": "plain", "": "of an older kind"}
_NOT_CAUSES = frozenset({"GPU", "plain", "trim", "commit", "samples"})  # under another name, or no cause


def warnings_of(grid: FigureGrid, sources: Sequence[FigureSource], letters: Sequence[str]) -> list[str]:
    """The sources' own warnings, then a line for each kind of difference between a later column and the first."""
    lines = [
        f"{letter}: {warning}" for source, letter in zip(sources, letters, strict=True) for warning in source.warnings
    ]
    pairs = [(first, later) for row in grid.rows if (first := row.entries[0]) for later in row.entries[1:] if later]
    lines += _differing_conditions(sources, letters)
    lines += _differing_timers(pairs)
    keys = workload_keys(entry for row in (*grid.rows, *grid.alone) for entry in row.entries if entry)
    lines += _differing_workloads(pairs) if set(keys.names).isdisjoint(grid.column_keys) else []
    return lines + _differing_kernels(pairs) + _differing_choices(pairs) + _differing_forms(pairs)


def _differing_conditions(sources: Sequence[FigureSource], letters: Sequence[str]) -> list[str]:
    measured = [(source, letter) for source, letter in zip(sources, letters, strict=True) if source.is_measured]
    names = dict.fromkeys(name for source, _ in measured for name in source.conditions)
    if len({source.gpu for source, _ in measured}) > 1:  # GPU models differ in these anyway
        names = dict.fromkeys(name for name in names if name not in _OF_THE_CARD)
    parts = []
    for name in names:
        values = [source.conditions.get(name, _DEFAULTS.get(name, ""))[:_SHORT] for source, _ in measured]
        if len({*values} - {""}) > 1:
            parts.append(f"{CARD if name == 'GPU' else name} " + " | ".join(value or "?" for value in values))
    among = " | ".join(letter for _, letter in measured)
    return [f"conditions differ ({among}): {'; '.join(parts)}"] if parts else []


def _differing_timers(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    """Times of different timers cover different spans: only some include the launch."""
    timers = dict.fromkeys((first.figure.timer, later.figure.timer) for first, later in pairs)
    return [
        f"timers differ: {one} | {other}, which do not time the same span"
        for one, other in timers
        if one and other and one != other
    ]


def _differing_workloads(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    parts = dict.fromkeys(
        differing_parts(first.figure.workload, later.figure.workload)
        for first, later in pairs
        if first.figure.workload != later.figure.workload
    )
    return [f"workloads differ: {one} | {other}, so the ratios are not of the kernels alone" for one, other in parts]


def _differing_kernels(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    kernels = dict.fromkeys(
        first.figure.kernel
        for first, later in pairs
        if first.figure.kernel == later.figure.kernel and _differs(first.figure.source_hash, later.figure.source_hash)
    )
    return [f"sources differ: {', '.join(kernels)}"] if kernels else []


def _differing_choices(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    """Kernels of equal sources for which a tuner chose other code, or may have."""
    cases = dict.fromkeys(
        f"{first.figure.label} {first.figure.workload}"
        for first, later in pairs
        if first.figure.kernel == later.figure.kernel
        and first.figure.workload == later.figure.workload
        and first.figure.is_tuned_otherwise(later.figure)
    )
    return [f"a tuner chose other code, or its choice is stored by one run alone: {', '.join(cases)}"] if cases else []


def _differing_forms(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    """Floors whose fastest forms differ: they are one case, but the code is not the same."""
    cases = dict.fromkeys(
        f"{first.figure.label} {first.figure.workload}: {first.figure.params} | {later.figure.params}"
        for first, later in pairs
        if first.has_other_forms
        and (first.figure.label, first.figure.workload) == (later.figure.label, later.figure.workload)
        and _differs(str(first.figure.params), str(later.figure.params))
    )
    return [f"forms differ: {'; '.join(cases)}"] if cases else []


def _differs(before: str, after: str) -> bool:
    """Whether both sides are known and differ; hashes of sources by another rule alone do not."""
    return bool(before and after) and not same_sources(before, after)


@dataclass(frozen=True)
class ConditionChange:
    """One condition before and after; empty if unknown."""

    before: str
    after: str


def changes_between(
    before: tuple[StoredRun, Figure], after: tuple[StoredRun, Figure], anchor: str = ""
) -> dict[str, ConditionChange]:
    """What changed besides the time: `source`, `params`, `method`, `anchor`, `card`, driver and library versions."""
    (run, figure), (later, now) = before, after
    changes = {
        SOURCE: ConditionChange(figure.source_hash, now.source_hash),
        PARAMS: ConditionChange(str(figure.params), str(now.params)),
        METHOD: ConditionChange(method_of(run, figure), method_of(later, now)),
        ANCHOR: ConditionChange(run.source_hash(anchor), later.source_hash(anchor)),
        CARD: ConditionChange(card_of(run), card_of(later)),
        **{
            name: ConditionChange(run.conditions.get(name, ""), later.conditions.get(name, ""))
            for name in dict.fromkeys([*run.conditions, *later.conditions])
            if name not in _NOT_CAUSES
        },
    }
    return {
        name: change
        for name, change in changes.items()
        # Params are always known: empty ones are a value.
        if _differs(change.before, change.after) or (name == PARAMS and change.before != change.after)
    }


def method_of(run: StoredRun, figure: Timed) -> str:
    """How a time was measured: its timer, or for NVBench `default` or `plain`, and a trim other than a quarter."""
    if not figure.timer:
        return ""
    conditions = run.conditions
    trim = conditions.get("trim", UNRECORDED_TRIM)
    trimmed = "" if trim == UNRECORDED_TRIM else f", {trim} trimmed"
    if figure.timer != "nvbench":
        return figure.timer + trimmed
    return _PLAIN.get(conditions.get("plain", ""), "default") + trimmed


def card_of(run: StoredRun) -> str:
    """The first eight digits of the card's UUID; empty if unknown."""
    return run.conditions.get("GPU", "").removeprefix("GPU-")[:8]


_FAIL_ON = re.compile(r"slower(?::(?P<margin>\d+(?:\.\d*)?|\.\d+)%)?")


@dataclass(frozen=True)
class ColumnComparison:
    """A later column against the first: per row a ratio, or None."""

    ratios: tuple[TimeRatio | None, ...]
    mean: GeometricMean | None
    runs: tuple[tuple[str, str, RunPair], ...]  # letters of each pair of runs, and how they differ as a whole
    paired: bool  # whether it has figures of one run, paired by round


@dataclass(frozen=True)
class SourceComparison:
    """Sources joined and compared: each later column of the grid against its first; `letters` name the sources."""

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
    sources. UsageError is raised for invalid keys or filter, or figures with no case in common.
    """
    if len(sources) > len(ascii_uppercase):
        raise UsageError(f"{len(sources)} sources are too many", f"at most {len(ascii_uppercase)}")
    everything = entries_of(sources)
    column_keys = parse_keys("--cols", columns, everything) if columns else DEFAULT_COLUMNS
    chosen = filter_entries(everything, filtered)
    row_keys = parse_keys("--rows", rows, everything) if rows else default_rows(column_keys, everything)
    if twice := [key for key in row_keys if key in column_keys]:
        raise UsageError(f"{twice[0]} is in --rows and in --cols", "leave it out of one")
    grid = join(chosen, row_keys, column_keys)
    letters = dict(zip((source.name for source in sources), ascii_uppercase, strict=False))
    by_name = {source.name: source for source in sources}
    pairs = cache(lambda left, right: RunPair(by_name[left], by_name[right]))

    def pair_of(left: FigureSource, right: FigureSource) -> RunPair:
        return pairs(left.name, right.name)

    return SourceComparison(
        sources=tuple(sources),
        letters=tuple(letters.values()),
        grid=grid,
        columns=tuple(_column(grid, index, pair_of, settings, letters) for index in range(1, len(grid.columns))),
        warnings=tuple(warnings_of(grid, sources, list(letters.values()))),
        settings=settings,
    )


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
        mean=mean,
        runs=tuple(runs),
        paired=any(one is other for one, other in sources.values()),
    )


@dataclass(frozen=True)
class RegressionCheck:
    """The result of `--fail-on` in the last column: rows that are slower, failed there, or are undecided."""

    slower: tuple[GridRow, ...]
    failed: tuple[GridRow, ...]
    undecided: tuple[GridRow, ...]
    judged: int  # rows in all

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
    """Judges the last column, compared at the same margin, against the first, without floors."""
    slower, failed, undecided, judged = [], [], [], 0
    for row, ratio in zip(rows, ratios, strict=True):
        first, last = row.entries[0], row.entries[-1]
        if not first or not last or is_no_kernel(first) or first.figure.status is not Status.OK:
            continue
        judged += 1
        if last.figure.status is Status.NOT_RUN:
            undecided.append(row)
        elif last.figure.status.is_failure:
            failed.append(row)
        elif ratio and ratio.comparison and ratio.comparison.verdict is Verdict.SLOWER:
            slower.append(row)
        elif ratio and not (ratio.comparison and ratio.comparison.speedup.low >= margin_edges(margin)[0]):
            undecided.append(row)
    return RegressionCheck(tuple(slower), tuple(failed), tuple(undecided), judged)
