"""Counters of Nsight Compute for a language model, at most 4 KB of JSON: of one GPU function, or what changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from gdnbench.diagnose.evidence import LATENCY_PCT
from gdnbench.diagnose.launch import cycle_breakdown, profiled_launch
from gdnbench.profile.ncu.functions import Function, FunctionDifference, accesses, pipes_pct, traffic_bytes
from gdnbench.profile.ncu.lines import stored_lines
from gdnbench.profile.ncu.quantities import BY_KEY, QUANTITIES, LaunchProfile
from gdnbench.render.console import print_text
from gdnbench.render.digest import Digest, fit, to_text
from gdnbench.render.table import Answer
from gdnbench.render.units import CodeOf, other_code
from gdnbench.report.ncu import NOT_A_TIME, change_text, is_changed, workload_text

_LIMIT_BYTES = 3800
"""Of a function's or a pair's text: less than that of a tool's result, which has its exit code beside it."""

_UNITS = {"DRAM": "dram_pct", "L2": "l2_pct", "L1 and shared memory": "l1_pct", "SM": "sm_pct"}
_LEAST_PCT = 1.0  # of a peak or of the time, below which a share says nothing
_MOST_LINES = 6  # of the source, that are named
_PARTS = {
    "waiting": "schedulers whose warps all wait",
    "issuing": "schedulers that issue",
    "empty": "schedulers without a warp on SMs with work",
    "uneven": "SMs without work while the busiest has some",
    "launch": "no SM works: the launch and its end",
}
"""Meanings of the parts of `CycleBreakdown`."""


def model_answer(functions: Sequence[Function], code_of: CodeOf) -> Answer:
    """Returns a text for each function."""
    return _answer([Digest(_function(each, code_of), "facts") for each in functions])


def model_difference_answer(differences: Sequence[FunctionDifference], code_of: CodeOf) -> Answer:
    """Returns a text of what changed for each pair."""
    return _answer([Digest(_difference(each, code_of), "changes") for each in differences])


def _answer(digests: Sequence[Digest]) -> Answer:
    documents = [fit({}, digest, limit_bytes=_LIMIT_BYTES) for digest in digests]
    return Answer(
        text=lambda _width: [lambda _console: print_text("\n".join(map(to_text, documents)))],
        document=lambda: documents,
    )


def _function(function: Function, code_of: CodeOf) -> dict[str, Any]:
    """Returns what bounds a function, and facts by kind, the most important kind first, the largest of each first."""
    facts = {
        "time": _group(function, "time"),
        "cycles_pct": _cycles_pct(function),
        "stalls_cycles_per_instruction": _stalls(function),
        "source_lines": _lines(function),
        "bytes": _medians(function, traffic_bytes),
        "pipes_pct_of_peak": {name: pct for name, pct in _medians(function, pipes_pct).items() if pct >= _LEAST_PCT},
        **{group: _group(function, group) for group in ("warps", "launch", "memory", "instructions")},
        "warp_instructions": _medians(function, accesses),
    }
    return {
        **_subject(function),
        "launches": len(function.profiles),
        "bound_by": nearest_peak(function),
        "note": NOT_A_TIME,
        "warnings": _warnings([function], code_of),
        "facts": [{name: found} for name, found in facts.items() if found],
    }


def _difference(difference: FunctionDifference, code_of: CodeOf) -> dict[str, Any]:
    before, after = difference.before, difference.after
    changes = [
        {
            group: {
                change.key: [*change.medians, change_text(change), *filter(None, [change.verdict])]
                for change in changed
            }
        }
        for group, changed in groupby(difference.changes, lambda change: change.group)
    ]
    spread = "by more than the launches of each spread" if difference.has_spread else "of one launch each: by chance?"
    return {
        "before": _subject(before),
        "after": _subject(after),
        "changed": f"{len(difference.changes)} of {difference.compared} quantities, {spread}",
        "bound_by": [nearest_peak(before), nearest_peak(after)],
        "note": NOT_A_TIME,
        "warnings": _warnings([before, after], code_of),
        "changes": changes,
    }


def _subject(function: Function) -> dict[str, str]:
    return {
        "kernel": function.label,
        "workload": workload_text(function.workload),
        "gpu": function.gpu,
        "function": function.name,
    }


def _warnings(functions: Sequence[Function], code_of: CodeOf) -> list[str]:
    return [other_code(one.label) for one in functions if is_changed(one, code_of)]


def nearest_peak(function: Function) -> str:
    """Names the unit nearest to its peak, or latency if none comes near; by the line of ncu's rule `SOLBottleneck`."""
    known = {name: value for name, key in _UNITS.items() if not math.isnan(value := _median(function, key))}
    if not known:
        return "not known: the report has no unit's throughput"
    unit = max(known, key=known.__getitem__)
    text = f"{unit} at {known[unit]:.1f}% of its peak"
    return text if known[unit] >= LATENCY_PCT else f"latency ({text}, less than {LATENCY_PCT:.0f}%)"


def _cycles_pct(function: Function) -> dict[str, float]:
    """Returns the mean shares of the launches' cycles, largest first; empty if a report lacks a counter for it."""
    found = []
    for profile in function.profiles:
        launch = profiled_launch(profile)
        breakdown = cycle_breakdown(profile, launch) if launch else None
        if breakdown is None:
            return {}
        found.append(breakdown)
    shares = {meaning: 100 * statistics.mean(getattr(each, name) for each in found) for name, meaning in _PARTS.items()}
    return dict(sorted(shares.items(), key=lambda share: -share[1]))


def _stalls(function: Function) -> dict[str, float]:
    found = function.stalls()
    return {reason: cycles for reason, cycles in found.items() if 100 * cycles >= _LEAST_PCT * sum(found.values())}


def _lines(function: Function) -> dict[str, str]:
    """Returns where warps stand, by source line: the share of the samples, why most do, and the first instruction."""
    lines = stored_lines(function.path, function.name)
    samples = sum(line.total("samples") for line in lines)
    return {
        line.line: f"{line.total('samples') / samples:.0%}, {line.stall[0]}, {line.instructions[0].sass}"
        for line in lines[:_MOST_LINES]
        if line.total("samples")
    }


def _medians(function: Function, kinds: Callable[[LaunchProfile], Mapping[str, float]]) -> dict[str, float]:
    """Returns the median over the launches of each kind that any of them has, largest first."""
    found = [kinds(profile) for profile in function.profiles]
    names = dict.fromkeys(name for each in found for name in each)
    medians = {name: statistics.median(each.get(name, 0.0) for each in found) for name in names}
    return dict(sorted(medians.items(), key=lambda pair: -pair[1]))


def _group(function: Function, group: str) -> dict[str, float]:
    found = {quantity.key: _median(function, quantity.key) for quantity in QUANTITIES if quantity.group == group}
    return {key: value for key, value in found.items() if not math.isnan(value)}


def _median(function: Function, key: str) -> float:
    value = function.median(BY_KEY[key])
    return math.nan if value is None else value
