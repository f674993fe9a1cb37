"""What stands below a comparison: how its ratios were made, what explains them, what has no time and no partner."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from gdnbench.compare.comparison import Column, SideBySide
from gdnbench.compare.join import Names, Row
from gdnbench.compare.shift import ASSUMED, Shift
from gdnbench.model import Status
from gdnbench.report.compare_text import row_label, some, verdict_text
from gdnbench.report.run_table import percent
from gdnbench.stats import Verdict

MOST_REASONS = 3  # of the farthest from what was expected; the others say much the same


def notes(side: SideBySide) -> list[str]:
    """Below the table: how the ratios were made, what the hardware explains, what has no time and no partner."""
    headings = side.headings
    lines = [line for column in side.columns for line in _shift_lines(side, column)]
    for heading, column in zip(headings[1:], side.columns, strict=True):
        lines += _bounds(heading, column) + _reasons(side, heading, column)
        lines += _no_interval(heading, column) + _unclear(side, heading, column)
    return [*lines, *_failures(side), *_alone(side)]


def _shift_lines(side: SideBySide, column: Column) -> list[str]:
    kernels = dict.fromkeys(entry.figure.kernel for row in side.grid.rows for entry in row.entries if entry)
    return [line for shift in column.shifts for line in _shift(*shift, list(kernels), raw=side.settings.raw)]


def _shift(one: str, other: str, shift: Shift, kernels: Sequence[str], *, raw: bool) -> list[str]:
    pair, whole = f"{other} against {one}", shift.estimate()
    untold = [kernel for kernel in kernels if not shift.estimate(kernel).known]
    lines = []
    if whole.known:
        # A zero without a sign of its own: -0.0 % would look like a finding.
        moved = f"{pair}: all cases moved together by {round(whole.percent, 1) + 0.0:+.1f}%"
        taken = "left in, and added to the intervals" if raw else "taken out; --raw keeps it"
        lines.append(f"{moved} (±{percent(whole.scatter)} each, by {whole.anchors} unchanged ones): {taken}")
    if untold:
        of = some(untold) if whole.known else "any case"
        why = f"{pair}: too few other unchanged cases tell the shift of {of}"
        lines.append(f"{why}: not taken out, and ±{ASSUMED:.0%} added, which a process may differ by")
    return lines


def _bounds(heading: str, column: Column) -> list[str]:
    """What the times are made of, on both GPUs; a case that is made of one thing here and another there is not told."""
    bounds = [expected.bound for expected in column.expected if expected]
    told = {"latency": "launch and latency are", "bandwidth": "traffic at peak bandwidth is"}
    return [
        f"{heading}: {words} most of both times in {bounds.count(bound)} of {_cases(len(bounds))}"
        for bound, words in told.items()
        if bound in bounds
    ]


def _reasons(side: SideBySide, heading: str, column: Column) -> list[str]:
    """Why, for the cases farthest from what was expected; those that share a reason share a line."""
    told = [(row, one) for row, one in zip(side.grid.rows, column.expected, strict=True) if one]
    told.sort(key=lambda pair: abs(math.log(pair[1].residual)), reverse=True)
    grouped: dict[str, list[str]] = {}
    for row, expected in told:
        grouped.setdefault(expected.reason, []).append(row_label(row))
    lines = [f"{heading}, {some(labels)}: {reason}" for reason, labels in grouped.items()]
    more = len(lines) - MOST_REASONS
    return lines[:MOST_REASONS] + ([f"{heading}: {more} more such lines are in --json and --csv"] if more > 0 else [])


def _no_interval(heading: str, column: Column) -> list[str]:
    counts = Counter(ratio.untold for ratio in column.ratios if ratio and ratio.comparison is None)
    return [f"{heading}: no interval and no verdict for {_cases(count)}: {why}" for why, count in counts.items()]


def _unclear(side: SideBySide, heading: str, column: Column) -> list[str]:
    """What to do about it: between runs, no number of rounds would help."""
    pairs = zip(side.grid.rows, column.ratios, strict=True)
    count = sum(verdict_text(row, ratio) == Verdict.UNCLEAR.upper() for row, ratio in pairs)
    if column.paired or not count:
        return []
    advice = "measure both kernels in one run to tell less, or give a larger --margin"
    return [f"{heading}: {_cases(count)} UNCLEAR: {advice}"]


def _failures(side: SideBySide) -> list[str]:
    """What was not measured on a side, cases of one status and reason in one line."""
    grouped: dict[tuple[str, Status, str], list[str]] = {}
    for row in side.grid.rows:
        for heading, entry in zip(side.headings, row.entries, strict=True):
            if entry and entry.figure.status is not Status.OK:
                reason = (entry.figure.reason.strip().splitlines() or [""])[0]
                grouped.setdefault((heading, entry.figure.status, reason), []).append(row_label(row))
    return [f"{heading}: {status}  {some(labels)}: {reason}" for (heading, status, reason), labels in grouped.items()]


def _alone(side: SideBySide) -> list[str]:
    """Cases without a partner, by the columns that have them."""
    grouped: dict[Names, list[Row]] = {}
    for row in side.grid.alone:
        having = tuple(h for h, entry in zip(side.headings, row.entries, strict=True) if entry)
        grouped.setdefault(having, []).append(row)
    lines = [f"only in {' and '.join(having)}: {_by_shape(rows)}" for having, rows in grouped.items()]
    return [*lines, *_other_params(side)]


def _by_shape(rows: Sequence[Row]) -> str:
    """Labels that share their shapes are told together."""
    shapes: dict[str, list[str]] = {}
    for row in rows:
        figure = next(entry.figure for entry in row.entries if entry)
        shapes.setdefault(figure.label, []).append(str(figure.shape))
    together: dict[tuple[str, ...], list[str]] = {}
    for label, where in shapes.items():
        together.setdefault(tuple(dict.fromkeys(where)), []).append(label)
    return "; ".join(f"{some(labels)} at {some(where)}" for where, labels in together.items())


def _other_params(side: SideBySide) -> list[str]:
    """Cases that lack a partner for their params alone."""
    if "params" not in side.grid.row_keys:
        return []
    by_name: dict[str, dict[str, None]] = {}
    for row in (*side.grid.rows, *side.grid.alone):
        figure = next(entry.figure for entry in row.entries if entry)
        by_name.setdefault(row_label(row), {})[str(figure.params) or "none"] = None
    labels = [f"{name} ({' | '.join(params)})" for name, params in by_name.items() if len(params) > 1]
    return [f"other params: {some(labels)}; --rows shape,label joins them all the same"] if labels else []


def _cases(count: int) -> str:
    return "one case" if count == 1 else f"{count} cases"
