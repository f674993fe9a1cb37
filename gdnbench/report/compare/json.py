"""A comparison for `--json` and `--csv`."""

from __future__ import annotations

import math
from typing import Any

from gdnbench.compare.comparison import ColumnComparison, RegressionCheck, SourceComparison
from gdnbench.compare.grid import GridEntry, GridRow
from gdnbench.compare.run_change import RunChange, RunPair, TimeKind
from gdnbench.compare.spread import is_additive
from gdnbench.model.status import Status
from gdnbench.report.compare.run_change import workload_name
from gdnbench.report.compare.text import notes, row_label
from gdnbench.stats.interval import Interval


def comparison_document(side: SourceComparison, outcome: RegressionCheck | None) -> dict[str, Any]:
    """Returns a comparison as one document; `outcome` is the gate's, or None without a gate."""
    return {
        "sources": [
            {
                "letter": letter,
                "name": source.name,
                "kind": source.kind.value,
                "gpu": source.gpu,
                "conditions": dict(source.conditions),
                "warnings": list(source.warnings),
            }
            for letter, source in zip(side.letters, side.sources, strict=True)
        ],
        "rows_by": list(side.grid.row_keys),
        "columns_by": list(side.grid.column_keys),
        "columns": [" ".join(column) for column in side.grid.columns],
        "margin": side.settings.margin,
        "confidence": side.settings.confidence,
        "raw": side.settings.raw,
        "warnings": list(side.warnings),
        "notes": notes(side),
        "cases": comparison_rows(side),
        "against_first": [_column(name, column) for name, column in zip(side.headings[1:], side.columns, strict=True)],
        "gate": _gate(side, outcome) if outcome else None,
    }


def comparison_rows(side: SourceComparison) -> list[dict[str, Any]]:
    """Returns a row per case and column after the first, and per case without a partner."""
    paired = [
        {**_names(side, row), **_pair(side, column, number, row, index)}
        for number, column in enumerate(side.columns, start=1)
        for index, row in enumerate(side.grid.rows)
    ]
    alone = [
        {**_names(side, row), **_side("b" if number else "a", " ".join(side.grid.columns[number]), entry)}
        for row in side.grid.alone
        for number, entry in enumerate(row.entries)
        if entry
    ]
    return paired + [{**dict.fromkeys(paired[0] if paired else ()), **row} for row in alone]


def _names(side: SourceComparison, row: GridRow) -> dict[str, Any]:
    return dict(zip(side.grid.row_keys, row.names, strict=True))


def _pair(side: SourceComparison, column: ColumnComparison, number: int, row: GridRow, index: int) -> dict[str, Any]:
    names = side.grid.columns
    ratio, expected = column.ratios[index], column.expected[index]
    comparison = ratio.comparison if ratio else None
    return {
        **_side("a", " ".join(names[0]), row.entries[0]),
        **_side("b", " ".join(names[number]), row.entries[number]),
        "ratio": ratio.value if ratio else None,
        "ratio_lo": comparison.speedup.low if comparison else None,
        "ratio_hi": comparison.speedup.high if comparison else None,
        "verdict": comparison.verdict.value if comparison else "",
        "judged_by": ratio.kind.value if ratio and comparison else "",
        "stream_ratio": ratio.by_kind.get(TimeKind.STREAM) if ratio else None,
        "kernel_ratio": ratio.by_kind.get(TimeKind.KERNEL) if ratio else None,
        "expected": 1 / expected.ratio if expected else None,
        "residual": 1 / expected.residual if expected else None,
        "bound": expected.bound if expected else "",
        "reason": expected.reason if expected else "",
    }


def _side(letter: str, name: str, entry: GridEntry | None) -> dict[str, Any]:
    timed = entry is not None and entry.figure.status is Status.OK
    return {
        letter: name,
        f"time_{letter}_us": entry.figure.time_us if entry and timed else None,
        f"kernel_{letter}_us": _kernel_us(entry) if timed else None,
        f"status_{letter}": entry.figure.status.value if entry else "",
        f"role_{letter}": entry.figure.role.value if entry else "",
    }


def _kernel_us(entry: GridEntry | None) -> float | None:
    kernel = entry.figure.kernel_time if entry else None
    return kernel.time_us if kernel else None


def _column(heading: str, column: ColumnComparison) -> dict[str, Any]:
    mean = column.mean
    return {
        "column": heading,
        "cases": mean.cases if mean else 0,
        "geomean": mean.value if mean else None,
        **_ends(mean.interval if mean else None),
        "runs": [_runs(one, other, runs) for one, other, runs in column.runs],
    }


def _runs(one: str, other: str, runs: RunPair) -> dict[str, Any]:
    """Returns how a run differs from another as a whole: its launch in microseconds, its kernel times as a ratio."""
    launch, kernel = _whole(runs.stream), _whole(runs.kernel)
    return {
        "from": one,
        "to": other,
        "same_model": runs.stream.same_model,
        "same_card": runs.stream.same_card,
        "launch_us": launch["moved"] if _is_launch(runs.stream) else None,
        "launch_se_us": launch["error"] if _is_launch(runs.stream) else None,
        "launch_us_by_workload": launch["by_workload"] if _is_launch(runs.stream) else {},
        "unchanged": launch["unchanged"],
        "unchanged_are": runs.stream.labels,
        "kernel_times_longer_by": math.expm1(kernel["moved"]) if kernel["unchanged"] else None,
        "kernel_times_unchanged": kernel["unchanged"],
    }


def _is_launch(change: RunChange) -> bool:
    return bool(change.unchanged) and is_additive(change.unchanged[0][1].timer)


def _whole(change: RunChange) -> dict[str, Any]:
    effect = change.effect
    return {
        "moved": effect.whole.mean if effect else None,
        "error": math.sqrt(effect.whole.variance) if effect else None,
        "by_workload": {workload_name(place): each.mean for place, each in effect.workloads.items()} if effect else {},
        "unchanged": effect.peers if effect else 0,
    }


def _ends(interval: Interval | None) -> dict[str, float | None]:
    return {"geomean_lo": interval.low if interval else None, "geomean_hi": interval.high if interval else None}


def _gate(side: SourceComparison, outcome: RegressionCheck) -> dict[str, Any]:
    groups = {"slower": outcome.slower, "failed": outcome.failed, "untold": outcome.undecided}
    return {"margin": side.settings.margin, **{name: [row_label(row) for row in rows] for name, rows in groups.items()}}
