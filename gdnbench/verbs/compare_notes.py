"""The texts of a comparison, for the terminal and Markdown: sources, ratios, legend and notes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import shorten

from gdnbench.analyse.comparison import ColumnComparison, RegressionCheck, SourceComparison
from gdnbench.analyse.figure import FigureSource, SourceKind
from gdnbench.analyse.grid import GridEntry, GridRow, KeyValues
from gdnbench.analyse.ratio import TimeRatio, is_no_kernel
from gdnbench.analyse.run_change import LAUNCH_OF_A_HOST_US, RunChange, RunPair, TimeKind, is_additive
from gdnbench.model.status import Status
from gdnbench.render.units import percent
from gdnbench.stats.interval import Verdict
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US
from gdnbench.verbs.run_notes import with_inputs
from gdnbench.wording import first_of as first_few
from gdnbench.wording import plural

MOST_NAMES = 8
LONGEST_REASON = 160  # characters; CUDA reports its whole memory when it is out of it
_TWICE = 2.0  # standard deviations in half of a 95 % interval, about


def source_lines(side: SourceComparison) -> list[str]:
    """Returns a line per source: `A  20260102-030405-h200-decode (h200)`."""
    return [f"{letter}  {_source(source)}" for letter, source in zip(side.letters, side.sources, strict=True)]


def _source(source: FigureSource) -> str:
    message = [source.gpu or "GPU unknown"]
    if source.kind is SourceKind.MEASURED:
        message[0] += with_inputs(figure.workload for figure in source.figures)
    else:
        message += ["as published", *sorted({figure.citation for figure in source.figures if figure.citation})[:1]]
    return f"{source.name} ({'; '.join(message)})"


def has_time(entry: GridEntry) -> bool:
    """Whether a case was measured."""
    return entry.figure.status is Status.OK and not math.isnan(entry.figure.time_us)


def row_label(row: GridRow) -> str:
    """Returns a row's name in a sentence, that of its last case: `decode-v4 at B=1 qk4_v8`."""
    return next(_case_label(entry) for entry in reversed(row.entries) if entry)


def _case_label(entry: GridEntry) -> str:
    """Returns the case's name, from which the row's differs if columns are kernels or workloads."""
    return f"{entry.figure.label} at {entry.figure.workload}"


def verdict_text(row: GridRow, ratio: TimeRatio | None) -> str:
    """Returns the verdict in capitals; `floor` for a floor, empty without an interval."""
    first = row.entries[0]
    if ratio and first and is_no_kernel(first):
        return "floor"
    return ratio.comparison.verdict.upper() if ratio and ratio.comparison else ""


def outcome_lines(outcome: RegressionCheck, margin: float) -> list[str]:
    """Returns the gate's findings, a line per regression, with the names of the cases, and their numbers."""
    lines = [f"regression: {row_label(row)} is slower by more than {percent(margin)}" for row in outcome.slower]
    for row in outcome.failed:
        last = row.entries[-1]
        lines.append(f"regression: {row_label(row)} had a time and now ended as {last.figure.status if last else ''}")
    if outcome.undecided:
        names = _some([row_label(row) for row in outcome.undecided])
        lines.append(f"may be {percent(margin)} slower: {names}")
    count = plural(len(outcome.slower) + len(outcome.failed), "regression")
    return [*lines, f"{count}, {len(outcome.undecided)} of {outcome.judged} undecided"]


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
    if TimeKind.STREAM in kinds:
        lines.append("Ratios of stream times of two runs are as with the mean of their two launches.")
    if TimeKind.KERNEL in kinds:
        lines.append("Kernel times are from the first block's start to the last block's end (CUPTI).")
    if any(column.paired for column in side.columns):
        lines.append("Figures of one run are paired by round.")
    return lines


def _some(names: Iterable[str]) -> str:
    return first_few(list(dict.fromkeys(names)), MOST_NAMES)


def notes(side: SourceComparison) -> list[str]:
    """Returns the lines below a table: run effects, and what is UNCLEAR, failed or alone."""
    headings = side.headings
    lines = [line for column in side.columns for line in run_change_lines(side, column)]
    for heading, column in zip(headings[1:], side.columns, strict=True):
        lines += _no_interval(heading, column) + _unclear(side, heading, column)
    return [*lines, *_failures(side), *_alone(side)]


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
        first = next(entry for entry in row.entries if entry)
        by_name.setdefault(_case_label(first), {})[str(first.figure.params) or "none"] = None
    labels = [f"{name} ({' | '.join(params)})" for name, params in by_name.items() if len(params) > 1]
    return [f"other params: {_some(labels)}; --rows shape,label joins them all the same"] if labels else []


def _cases(count: int) -> str:
    return "one case" if count == 1 else f"{count} cases"


def run_change_lines(side: SourceComparison, column: ColumnComparison) -> list[str]:
    """Returns, per pair of runs of a column, what was taken out, which times are judged, and what is unknown."""
    lines = []
    for one, other, runs in column.runs:
        ratios = _ratios_of(side, column, one, other)
        for kind in TimeKind:
            if of_kind := [each for each in ratios if each[1].kind is kind]:
                lines += _lines(f"{other} against {one}", runs, kind, of_kind)
    return lines


def _ratios_of(
    side: SourceComparison, column: ColumnComparison, one: str, other: str
) -> list[tuple[tuple[GridEntry, GridEntry], TimeRatio]]:
    """Returns the ratios of a pair of runs that have an interval, with their figures."""
    letters = {source.name: letter for source, letter in zip(side.sources, side.letters, strict=True)}
    place = side.columns.index(column) + 1
    found = []
    for row, ratio in zip(side.grid.rows, column.ratios, strict=True):
        left, right = row.entries[0], row.entries[place]
        if left and right and ratio and ratio.apart:
            names = letters[left.source.name], letters[right.source.name]
            if names == (one, other):
                found.append(((left, right), ratio))
    return found


def _lines(
    pair: str, runs: RunPair, kind: TimeKind, ratios: Sequence[tuple[tuple[GridEntry, GridEntry], TimeRatio]]
) -> list[str]:
    change = runs.stream if kind is TimeKind.STREAM else runs.kernel
    if not change.same_model:
        return [_other_model(pair, kind, len(ratios))]
    unknown = [row for row in ratios if not change.effect_on(row[0][0].figure, row[0][1].figure).peers]
    lines = [_taken_out(pair, change, kind)] if len(unknown) < len(ratios) else []
    if unknown and kind is TimeKind.STREAM:
        lines.append(_unknown_launch(pair, change, len(unknown), len(ratios)))
    if kind is TimeKind.KERNEL:
        count = "1 ratio is" if len(ratios) == 1 else f"{len(ratios)} ratios are"
        lines.insert(0, f"{pair}: {count} of kernel times (CUPTI), which hold no launch: the cards differ")
    return lines


def _other_model(pair: str, kind: TimeKind, count: int) -> str:
    if kind is TimeKind.KERNEL:
        return (
            f"{pair}: other GPU models, so {plural(count, 'ratio')} of kernel times (CUPTI), which hold no launch; "
            "what cards of one model differ by is in the intervals"
        )
    apart = _TWICE * math.hypot(LAUNCH_OF_A_HOST_US, USUAL_LAUNCH_SD_US) * math.sqrt(2.0)
    return (
        f"{pair}: other GPU models, and {plural(count, 'ratio')} of stream times, which hold the launch of either "
        f"host; the intervals allow for launches that differ by {apart:.1f} µs"
    )


def _taken_out(pair: str, change: RunChange, kind: TimeKind) -> str:
    effect = change.effect
    assert effect
    which = ("floor of other sources", "floors of other sources") if change.presumed else ("unchanged case", "")
    cases = f"from {plural(effect.peers, *which)}"
    if kind is TimeKind.KERNEL:
        return f"{pair}: kernel times of this run {math.expm1(effect.whole.mean):+.2%} as a whole, {cases}: taken out"
    if not is_additive(change.unchanged[0][1].timer):
        return f"{pair}: times of this run {math.expm1(effect.whole.mean):+.1%} as a whole, {cases}: taken out"
    launch_us = round(effect.whole.mean, 2) + 0.0  # turns -0.0, which would look like a finding, into 0.0
    return f"{pair}: launch of this run {launch_us:+.2f} µs, {cases}: taken out"


def _unknown_launch(pair: str, change: RunChange, unknown: int, of: int) -> str:
    host = 0.0 if change.same_card else LAUNCH_OF_A_HOST_US
    apart = _TWICE * math.hypot(host, USUAL_LAUNCH_SD_US) * math.sqrt(2.0)
    whose = "on one card" if change.same_card else "perhaps on two hosts"
    which = "no" if unknown == of else f"for {unknown} of {of} cases no other"
    return f"{pair}: {which} unchanged case tells the launch, {whose}: ±{apart:.1f} µs are in the intervals for it"
