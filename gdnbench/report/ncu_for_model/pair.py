"""Prints `gdnbench ncu --for-model`, and the changes between two GPU functions: time, cycles, what changed most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gdnbench.model.case import CodeState
from gdnbench.profile.ncu.functions import (
    STALLS,
    CounterChange,
    Function,
    FunctionDifference,
    accesses,
    has_changed,
    pipes_pct,
    traffic_bytes,
)
from gdnbench.profile.ncu.profile import LaunchProfile
from gdnbench.profile.ncu.quantities import BY_KEY
from gdnbench.render.console import print_json, print_text
from gdnbench.render.units import CodeOf, other_code
from gdnbench.report.budget import CounterView, Line, fit
from gdnbench.report.counters import change_text, subject, value_text
from gdnbench.report.ncu import difference_document, function_document
from gdnbench.report.ncu_for_model.one import (
    NO_TIME,
    PARTS,
    mean_breakdown,
    nearest_peak,
    unit_beside,
    view_of_function,
)

_BY_KIND = frozenset({"dram_read_bytes", "dram_write_bytes", "fma_pct", "alu_pct", "xu_pct", "lsu_pct"})
"""Quantities that are also among the kinds."""

_LEAST_CYCLES = 0.01  # least change of a part, in the launch's cycles, that is shown


def view_of_difference(difference: FunctionDifference, budget: int, notes: Sequence[str] = ()) -> CounterView:
    """Returns the text of a pair, within a budget of tokens if possible; `notes` stand at its head."""
    before, after = difference.before, difference.after
    named = "" if before.name == after.name else f", {before.name} -> {after.name}"
    told = [f"{subject(before)} -> {subject(after)}{named}, Nsight Compute", _rule(difference), *notes]
    head = [*(f"// {line}" for line in told), NO_TIME]
    return fit(head, list(lines_of_difference(difference)), budget)


def _rule(difference: FunctionDifference) -> str:
    told = f"{len(difference.changes)} of {difference.compared} quantities changed"
    if difference.has_spread:
        return f"{told}, by more than the launches of each spread"
    return f"{told}; of one launch each, so chance may be in it"


def lines_of_difference(difference: FunctionDifference) -> Iterator[Line]:
    """Yields the lines of changes, most important first."""
    before, after = difference.before, difference.after
    changes = {change.key: change for change in difference.changes}
    yield Line("time", tuple(_time(before, after)), required=True)
    yield Line("bound by", _bounds(before, after), required=True)
    yield Line("cycles of the launch", tuple(_cycles(before, after)))
    yield Line("stalls", tuple(_stalls(changes.values())), "cycles of a warp between two instructions")
    yield _kinds("bytes", difference, traffic_bytes, "B", "")
    yield _kinds("pipes", difference, pipes_pct, "%", "% of peak while SMs are active")
    for group in ("launch", "warps", "instructions", "memory", "pipes"):
        found = [one for one in changes.values() if one.group == group and one.key not in _BY_KIND]
        yield Line("units" if group == "pipes" else group, tuple(map(_item, _largest_first(found))))
    yield _kinds("accesses and branches", difference, accesses, "", "warp instructions")


def _time(before: Function, after: Function) -> Iterator[str]:
    for key in ("duration_us", "cycles", "sm_mhz"):
        quantity = BY_KEY[key]
        values = before.values(quantity), after.values(quantity)
        if all(values) and not any(map(math.isnan, (*values[0], *values[1]))):
            yield _item(CounterChange(key, quantity.title, quantity.unit, quantity.group, *values, quantity.better))


def _bounds(before: Function, after: Function) -> tuple[str, ...]:
    told = [str(nearest_peak(function) or "not known") for function in (before, after)]
    return (" -> ".join(told),)


def _cycles(before: Function, after: Function) -> Iterator[str]:
    parts, cycles = (mean_breakdown(before), mean_breakdown(after)), (_cycle_count(before), _cycle_count(after))
    if parts[0] is None or parts[1] is None:
        return
    one, other = parts
    counts = {told: (getattr(one, name) * cycles[0], getattr(other, name) * cycles[1]) for name, told in PARTS.items()}
    for told in sorted(counts, key=lambda each: -abs(counts[each][1] - counts[each][0])):
        first, second = counts[told]
        if abs(second - first) >= _LEAST_CYCLES * max(cycles):
            yield f"{told} {first:,.0f} -> {second:,.0f} ({second - first:+,.0f})"


def _cycle_count(function: Function) -> float:
    return function.median(BY_KEY["cycles"]) or math.nan


def _stalls(changes: Iterable[CounterChange]) -> Iterator[str]:
    found = [change for change in changes if change.group == STALLS]
    for change in sorted(found, key=lambda one: -abs(one.medians[1] - one.medians[0])):
        before, after = change.medians
        yield f"{change.title} {before:.2f} -> {after:.2f} ({after - before:+.2f})"


def _kinds(
    name: str,
    difference: FunctionDifference,
    kinds: Callable[[LaunchProfile], Mapping[str, float]],
    unit: str,
    told: str,
) -> Line:
    """Returns a line of changes of one sort, largest first: per cent in points, else as a ratio."""
    before, after = ([kinds(profile) for profile in one.profiles] for one in (difference.before, difference.after))
    titles = dict.fromkeys(title for each in (*before, *after) for title in each)
    changes = []
    for title in titles:
        values = tuple(tuple(each.get(title, 0.0) for each in side) for side in (before, after))
        changes.append(CounterChange(title, title, unit, name, values[0], values[1]))
    moved = [one for one in changes if has_changed(one.before, one.after, unit)]
    return Line(name, tuple(map(_item, _largest_first(moved))), told)


def _largest_first(changes: Sequence[CounterChange]) -> list[CounterChange]:
    return sorted(changes, key=_size, reverse=True)


def _size(change: CounterChange) -> tuple[bool, float]:
    """Returns the sort key of a change: shares by points, others by ratio; changes from or to 0 come first."""
    before, after = change.medians
    if change.unit == "%":
        return False, abs(after - before)
    if min(before, after) <= 0:
        return True, max(before, after)
    return False, abs(math.log(after / before))


def _item(change: CounterChange) -> str:
    """Formats a change: `DRAM read 540 kB -> 535 kB (-0.95%)`."""
    before, after = (value_text(value, change.unit) for value in change.medians)
    verdict = f", {change.verdict}" if change.verdict else ""
    return f"{change.title} {before} -> {after}{unit_beside(change.unit)} ({change_text(change)}{verdict})"


def print_functions_for_model(functions: Sequence[Function], code_of: CodeOf, budget: int, *, json: bool) -> None:
    """Prints each function's view, each within the budget in tokens."""
    views = [view_of_function(function, budget, _changed([function], code_of)) for function in functions]
    if json:
        known = (function_document(function, code_of) for function in functions)
        print_json([each | {"for_model": _document(view)} for each, view in zip(known, views, strict=True)])
    else:
        _print(views)


def print_differences_for_model(
    differences: Sequence[FunctionDifference], code_of: CodeOf, budget: int, *, json: bool
) -> None:
    """Prints a view of the changes per pair, each within the budget in tokens."""
    views = [view_of_difference(each, budget, _changed((each.before, each.after), code_of)) for each in differences]
    if json:
        known = (difference_document(difference, code_of) for difference in differences)
        print_json([each | {"for_model": _document(view)} for each, view in zip(known, views, strict=True)])
    else:
        _print(views)


def _changed(functions: Iterable[Function], code_of: CodeOf) -> list[str]:
    labels = [one.label for one in functions if code_of(one.label, one.source) is CodeState.CHANGED]
    return list(dict.fromkeys(map(other_code, labels)))


def _print(views: Iterable[CounterView]) -> None:
    print_text("\n\n".join(view.text for view in views))


def _document(view: CounterView) -> dict[str, Any]:
    return {
        "budget": view.budget,
        "tokens": view.tokens,
        "over": view.excess,
        "most_items": view.most,
        "left_out": list(view.left_out),
        "text": view.text,
    }
