"""The texts of a comparison, for the terminal and Markdown: sources, ratios, legend and notes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import shorten

from gdnbench.analyse.comparison import ColumnComparison, RegressionCheck, SourceComparison
from gdnbench.analyse.expected import ExpectedTime
from gdnbench.analyse.figure import FigureSource, SourceKind
from gdnbench.analyse.grid import GridEntry, GridRow, KeyValues
from gdnbench.analyse.ratio import TimeRatio, is_no_kernel
from gdnbench.analyse.run_change import TimeKind
from gdnbench.model.status import Status
from gdnbench.render.units import TimeUnit, factor, percent, plus_minus, time_unit
from gdnbench.report.compare.run_change import run_change_lines
from gdnbench.stats.interval import Interval, Verdict
from gdnbench.wording import first_of as first_few

MOST_NAMES = 8
LONGEST_REASON = 160  # characters; CUDA reports its whole memory when it is out of it
MOST_REASONS = 3  # of the cases farthest from expectation; the others mostly repeat them


def source_lines(side: SourceComparison) -> list[str]:
    """Returns a line per source: `A  20260102-030405-h200-decode (h200)`."""
    return [f"{letter}  {_source(source)}" for letter, source in zip(side.letters, side.sources, strict=True)]


def _source(source: FigureSource) -> str:
    told = [source.gpu or "GPU not told"]
    if source.kind is SourceKind.PUBLISHED:
        told += ["as published", *sorted({figure.citation for figure in source.figures if figure.citation})[:1]]
    if source.kind is SourceKind.FOREIGN:
        told.append("of another tool")
    return f"{source.name} ({'; '.join(told)})"


def shown_keys(side: SourceComparison) -> list[int]:
    """Returns positions of the row keys to show: kernel, workload, varying keys; params if nothing else differs."""
    grid = side.grid
    names = [row.names for row in grid.rows]
    vary = [i for i in range(len(grid.row_keys)) if len({name[i] for name in names}) > 1]
    told = [i for i in range(len(grid.row_keys)) if i in vary or grid.row_keys[i] in {"label", "kernel", "shape"}]
    without = [i for i in told if grid.row_keys[i] != "params"]
    return without if len({tuple(name[i] for i in without) for name in names}) == len(names) else told


def key_heading(side: SourceComparison, place: int) -> str:
    """Returns the heading of a row key's column."""
    key = side.grid.row_keys[place]
    return "kernel" if key == "label" else key


def unit_of(side: SourceComparison) -> TimeUnit:
    """Returns one unit for all times of a comparison, so that they can be read across."""
    entries = (entry for row in side.grid.rows for entry in row.entries if entry and has_time(entry))
    return time_unit(shown_time_us(entry, side.shown_clock) for entry in entries)


def time_heading(side: SourceComparison, column: int) -> str:
    """Returns the heading of a column: `B µs`, or `B kernel µs` if kernel times are shown."""
    whose = "kernel " if side.shown_clock is TimeKind.KERNEL else ""
    return f"{side.headings[column]} {whose}{unit_of(side).name}"


def shown_time_us(entry: GridEntry, kind: TimeKind) -> float:
    """Returns a case's time of the shown kind, or its stream time if it has no other."""
    kernel = entry.figure.kernel_time if kind is TimeKind.KERNEL else None
    return kernel.time_us if kernel else entry.figure.time_us


def time_or_status(entry: GridEntry | None, unit: TimeUnit, kind: TimeKind) -> str:
    """Returns a case's time, or its status without a time; empty for a missing case."""
    if entry is None:
        return ""
    return unit.text(shown_time_us(entry, kind)) if has_time(entry) else entry.figure.status.value


def has_time(entry: GridEntry) -> bool:
    """Whether a case was measured."""
    return entry.figure.status is Status.OK and not math.isnan(entry.figure.time_us)


def expected_texts(expected: ExpectedTime | None) -> tuple[str, str]:
    """Returns the ratio that the GPUs alone explain, and the measured ratio over it."""
    return (factor(1 / expected.ratio), f"{1 / expected.residual:.3f}") if expected else ("", "")


def mean_text(column: ColumnComparison) -> str:
    """Returns the geometric mean of a column's ratios, with its interval."""
    return interval_text(column.mean.value, column.mean.interval) if column.mean else ""


def row_label(row: GridRow) -> str:
    """Returns a row's name in a sentence: `decode-v4 at B=1 qk4_v8`."""
    return next(_case_label(entry) for entry in row.entries if entry)


def _case_label(entry: GridEntry) -> str:
    """Returns the case's name, from which the row's differs if columns are kernels or workloads."""
    return f"{entry.figure.label} at {entry.figure.workload}"


def ratio_text(ratio: TimeRatio | None) -> str:
    """Returns `1.063x ±0.27%`."""
    if ratio is None:
        return ""
    return interval_text(ratio.value, ratio.comparison.speedup if ratio.comparison else None)


def interval_text(value: float, interval: Interval | None) -> str:
    """Returns a ratio, with half of its interval if that is finite; empty for NaN."""
    if interval is None or not math.isfinite(interval.high):
        return factor(value)
    return factor(value) + plus_minus(interval.half_width / value)


def verdict_text(row: GridRow, ratio: TimeRatio | None) -> str:
    """Returns the verdict in capitals; `floor` for a floor, empty without an interval."""
    first = row.entries[0]
    if ratio and first and is_no_kernel(first):
        return "floor"
    return ratio.comparison.verdict.upper() if ratio and ratio.comparison else ""


def outcome_lines(outcome: RegressionCheck, margin: float) -> list[str]:
    """Returns the gate's findings, a line per regression, with the names of the cases."""
    lines = [f"regression: {row_label(row)} is slower by more than {percent(margin)}" for row in outcome.slower]
    for row in outcome.failed:
        last = row.entries[-1]
        lines.append(f"regression: {row_label(row)} had a time and now ended as {last.figure.status if last else ''}")
    if outcome.undecided:
        names = _some([row_label(row) for row in outcome.undecided])
        lines.append(f"cannot be told from {percent(margin)} slower: {names}")
    return lines


def legend(side: SourceComparison) -> list[str]:
    """Returns the meanings of the columns."""
    first = side.headings[0]
    settings = side.settings
    lines = [
        f"ratio: time of {first} / time of the other: above 1 the other is faster, below 1 slower.",
        f"±: {settings.confidence:.0%} interval, with Holm's correction for the number of cases. "
        f"FASTER or SLOWER where it lies beyond {settings.margin:.2%}, SAME where within, else UNCLEAR.",
        "geomean: of all ratios but those of floors.",
    ]
    kinds = {ratio.kind for column in side.columns for ratio in column.ratios if ratio and ratio.apart}
    if TimeKind.STREAM in kinds and not settings.raw:
        lines.append("Ratios of stream times of two runs are as with the mean of their two launches.")
    if TimeKind.KERNEL in kinds:
        lines.append("Kernel times are from the first block's start to the last block's end (CUPTI).")
    if any(column.paired for column in side.columns):
        lines.append("Figures of one run are paired by round.")
    if any(any(column.expected) for column in side.columns):
        lines.append("expected: the ratio that the GPUs alone lead one to expect; residual: ratio / expected.")
    return lines


def _some(names: Iterable[str]) -> str:
    return first_few(list(dict.fromkeys(names)), MOST_NAMES)


def notes(side: SourceComparison) -> list[str]:
    """Returns the lines below a table: run effects, what the GPUs explain, and what is UNCLEAR, failed or alone."""
    headings = side.headings
    lines = [line for column in side.columns for line in run_change_lines(side, column)]
    for heading, column in zip(headings[1:], side.columns, strict=True):
        lines += _bounds(side, heading, column) + _reasons(side, heading, column)
        lines += _no_interval(heading, column) + _unclear(side, heading, column)
    return [*lines, *_failures(side), *_alone(side)]


def _bounds(side: SourceComparison, heading: str, column: ColumnComparison) -> list[str]:
    """Returns in how many cases launch and latency, or traffic, are most of the time on both GPUs."""
    bounds = [expected.bound for expected in column.expected if expected]
    fixed = "latency is" if side.shown_clock is TimeKind.KERNEL else "launch and latency are"
    told = {"latency": fixed, "bandwidth": "traffic at peak bandwidth is"}
    return [
        f"{heading}: {words} most of both times in {bounds.count(bound)} of {_cases(len(bounds))}"
        for bound, words in told.items()
        if bound in bounds
    ]


def _reasons(side: SourceComparison, heading: str, column: ColumnComparison) -> list[str]:
    """Returns reasons of the cases farthest from expectation; cases with the same reason share a line."""
    told = [(row, one) for row, one in zip(side.grid.rows, column.expected, strict=True) if one]
    told.sort(key=lambda pair: abs(math.log(pair[1].residual)), reverse=True)
    grouped: dict[str, list[str]] = {}
    for row, expected in told:
        grouped.setdefault(expected.reason, []).append(row_label(row))
    lines = [f"{heading}, {_some(labels)}: {reason}" for reason, labels in grouped.items()]
    more = len(lines) - MOST_REASONS
    return lines[:MOST_REASONS] + ([f"{heading}: {more} more such lines are in --json and --csv"] if more > 0 else [])


def _no_interval(heading: str, column: ColumnComparison) -> list[str]:
    ratios = [ratio for ratio in column.ratios if ratio and ratio.reason]
    counts = Counter(
        ("no verdict" if ratio.comparison else "no interval and no verdict", ratio.reason) for ratio in ratios
    )
    return [f"{heading}: {lacks} for {_cases(count)}: {why}" for (lacks, why), count in counts.items()]


def _unclear(side: SourceComparison, heading: str, column: ColumnComparison) -> list[str]:
    """Returns how many cases are UNCLEAR and what to do: between runs, more rounds would not help."""
    pairs = zip(side.grid.rows, column.ratios, strict=True)
    unclear = Verdict.UNCLEAR.upper()
    count = sum(verdict_text(row, ratio) == unclear and not (ratio and ratio.reason) for row, ratio in pairs)
    if column.paired or not count:
        return []
    advice = "measure both kernels in one run to tell less, or give a larger --margin"
    return [f"{heading}: {_cases(count)} UNCLEAR: {advice}"]


def _failures(side: SourceComparison) -> list[str]:
    """Returns the cases not measured on a side; cases with the same status and reason share a line."""
    grouped: dict[tuple[str, Status, str], list[str]] = {}
    for row in side.grid.rows:
        for heading, entry in zip(side.headings, row.entries, strict=True):
            if entry and entry.figure.status is not Status.OK:
                reason = shorten(
                    (entry.figure.reason.strip().splitlines() or [""])[0], LONGEST_REASON, placeholder=" …"
                )
                grouped.setdefault((heading, entry.figure.status, reason), []).append(_case_label(entry))
    return [f"{heading}: {status}  {_some(labels)}: {reason}" for (heading, status, reason), labels in grouped.items()]


def _alone(side: SourceComparison) -> list[str]:
    grouped: dict[KeyValues, list[GridRow]] = {}
    for row in side.grid.alone:
        having = tuple(h for h, entry in zip(side.headings, row.entries, strict=True) if entry)
        grouped.setdefault(having, []).append(row)
    lines = [f"only in {' and '.join(having)}: {_by_workload(rows)}" for having, rows in grouped.items()]
    return [*lines, *_other_params(side)]


def _by_workload(rows: Sequence[GridRow]) -> str:
    workloads: dict[str, list[str]] = {}
    for row in rows:
        figure = next(entry.figure for entry in row.entries if entry)
        workloads.setdefault(figure.label, []).append(str(figure.workload))
    together: dict[tuple[str, ...], list[str]] = {}
    for label, where in workloads.items():
        together.setdefault(tuple(dict.fromkeys(where)), []).append(label)
    return "; ".join(f"{_some(labels)} at {_some(where)}" for where, labels in together.items())


def _other_params(side: SourceComparison) -> list[str]:
    if "params" not in side.grid.row_keys:
        return []
    by_name: dict[str, dict[str, None]] = {}
    for row in (*side.grid.rows, *side.grid.alone):
        figure = next(entry.figure for entry in row.entries if entry)
        by_name.setdefault(row_label(row), {})[str(figure.params) or "none"] = None
    labels = [f"{name} ({' | '.join(params)})" for name, params in by_name.items() if len(params) > 1]
    return [f"other params: {_some(labels)}; --rows shape,label joins them all the same"] if labels else []


def _cases(count: int) -> str:
    return "one case" if count == 1 else f"{count} cases"


def markdown(side: SourceComparison, outcome: Sequence[str]) -> str:
    """Returns GitHub's Markdown: the gate's `outcome`, a line each, the table, and notes and legend in a fold."""
    lines = [f"- **{line[0].upper()}{line[1:]}**" for line in map(_escape, outcome)]
    lines += [f"- {_escape(line)}" for line in source_lines(side)]
    lines += [f"- warning: {_escape(warning)}" for warning in side.warnings]
    lines += ["", *_table(side), ""]
    folded = [f"- {_escape(line)}" for line in notes(side)]
    lines += ["<details><summary>How to read it</summary>", "", *folded, "", *legend(side), "", "</details>"]
    return "\n".join(lines)


def _table(side: SourceComparison) -> list[str]:
    places = shown_keys(side)
    headings = [key_heading(side, place) for place in places]
    marks = [":--"] * len(places)
    unit = unit_of(side)
    headings.append(time_heading(side, 0))
    marks.append("--:")
    for number, column in enumerate(side.columns, start=1):
        headings += [time_heading(side, number), "ratio", "verdict"]
        marks += ["--:", "--:", ":--"]
        if any(column.expected):
            headings += ["expected", "residual"]
            marks += ["--:", "--:"]
    rows = [_row(side, index, places, unit) for index in range(len(side.grid.rows))]
    return [_line(headings), _line(marks, escape=False), *map(_line, rows), _line(_means(side, len(places)))]


def _row(side: SourceComparison, index: int, places: Sequence[int], unit: TimeUnit) -> list[str]:
    row = side.grid.rows[index]
    cells = [row.names[place] for place in places] + [time_or_status(row.entries[0], unit, side.shown_clock)]
    for number, column in enumerate(side.columns, start=1):
        ratio, expected = column.ratios[index], column.expected[index]
        cells += [
            time_or_status(row.entries[number], unit, side.shown_clock),
            ratio_text(ratio),
            verdict_text(row, ratio),
        ]
        if any(column.expected):
            cells += expected_texts(expected)
    return cells


def _means(side: SourceComparison, names: int) -> list[str]:
    cells = ["geomean", *[""] * names]
    for column in side.columns:
        cells += ["", mean_text(column), "", *([""] * 2 if any(column.expected) else [])]
    return cells


def _line(cells: Sequence[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(_escape(cell) if escape else cell for cell in cells) + " |"


def _escape(text: str) -> str:
    for sign in "\\|*_<>`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
