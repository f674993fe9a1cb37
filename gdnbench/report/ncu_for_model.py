"""Counters of Nsight Compute for a language model, within a budget of tokens: of one GPU function, or what changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gdnbench.diagnose.evidence import LATENCY_PCT
from gdnbench.diagnose.launch import CycleBreakdown, cycle_breakdown, profiled_launch
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
from gdnbench.profile.ncu.quantities import BY_KEY, OCCUPANCY_LIMITS, STALL_MEANINGS, LaunchProfile
from gdnbench.render.console import print_text
from gdnbench.render.table import Answer
from gdnbench.render.units import CodeOf, other_code
from gdnbench.report.budget import CounterView, Line, fit
from gdnbench.report.ncu import (
    change_text,
    difference_document,
    function_document,
    is_changed,
    subject,
    value_text,
)

NO_TIME = "// ncu's duration is of a replay after a flush of the caches: compare it with other ncu durations alone"

_UNITS = {"DRAM": "dram_pct", "L2": "l2_pct", "L1 and shared memory": "l1_pct", "SM": "sm_pct"}
_BESIDE = frozenset({"µs", "MHz", "%"})
_LEAST_PCT = 1.0  # of a peak or of the time, below which a share says nothing
_MEANT = 0.1  # of a warp's time, from which on a stall is explained

PARTS: Mapping[str, str] = {
    "waiting": "schedulers whose warps all wait",
    "issuing": "schedulers that issue",
    "empty": "schedulers without a warp on SMs with work",
    "uneven": "SMs without work while the busiest has some",
    "launch": "no SM works: the launch and its end",
}
"""Meanings of the parts of `CycleBreakdown`."""


def view_of_function(function: Function, budget: int, notes: Sequence[str] = ()) -> CounterView:
    """Returns the text of one function, within a budget of tokens if possible; `notes` stand at its head."""
    count = len(function.profiles)
    launches = "1 launch" if count == 1 else f"medians of {count} launches"
    head = [
        f"// {subject(function)}, {function.name}, {launches}, Nsight Compute",
        *(f"// {note}" for note in notes),
        NO_TIME,
    ]
    return fit(head, list(lines_of_function(function)), budget)


def lines_of_function(function: Function) -> Iterator[Line]:
    """Yields the lines, most important first, without what the report lacks or ncu could not read."""
    yield Line(
        "time", tuple(_valued(function, {"": "duration_us", "cycles": "cycles", "SM clock": "sm_mhz"})), required=True
    )
    yield Line("bound by", (_bound(function),), required=True)
    yield _cycles(function)
    yield _stalls(function)
    yield _traffic(function)
    yield _shares("units", {name: _median(function, key) for name, key in _UNITS.items()}, "% of peak")
    yield _shares("pipes", medians_of(function, pipes_pct), "% of peak while SMs are active")
    yield Line("warps", tuple(_warps(function)), ranked=False)
    yield Line("launch", tuple(_launch(function)), ranked=False)
    yield Line("memory", tuple(_memory(function)), ranked=False)
    yield _counts("accesses and branches", medians_of(function, accesses), "warp instructions")


@dataclass(frozen=True)
class NearestPeak:
    """The unit nearest to its peak, and its per cent of that peak."""

    unit: str
    pct: float

    @property
    def bounds(self) -> bool:
        """Whether the unit takes the time; ncu draws the same line, in its rule `SOLBottleneck`."""
        return self.pct >= LATENCY_PCT

    def __str__(self) -> str:
        text = f"{self.unit} at {self.pct:.1f}% of its peak"
        return text if self.bounds else f"latency ({text})"


def nearest_peak(function: Function) -> NearestPeak | None:
    """Returns the unit nearest to its peak, or None if the report has none of the units."""
    known = {name: value for name, key in _UNITS.items() if not math.isnan(value := _median(function, key))}
    if not known:
        return None
    busiest = max(known, key=known.__getitem__)
    return NearestPeak(busiest, known[busiest])


def _bound(function: Function) -> str:
    nearest = nearest_peak(function)
    if nearest is None:
        return "not known: the report has no unit's throughput"
    return str(nearest) if nearest.bounds else f"{nearest}: no unit reaches {LATENCY_PCT:.0f}% of its peak"


def mean_breakdown(function: Function) -> CycleBreakdown | None:
    """Returns the mean breakdown of the launches' cycles, or None if a report lacks a counter for it."""
    found = [_breakdown(profile) for profile in function.profiles]
    known = [each for each in found if each]
    if not known or len(known) < len(found):
        return None
    shares = {name: statistics.mean(getattr(each, name) for each in known) for name in PARTS}
    return CycleBreakdown(**shares)


def _breakdown(profile: LaunchProfile) -> CycleBreakdown | None:
    launch = profiled_launch(profile)
    return cycle_breakdown(profile, launch) if launch else None


def medians_of(function: Function, kinds: Callable[[LaunchProfile], Mapping[str, float]]) -> dict[str, float]:
    """Returns the median over the launches of each kind that any of them has, largest first."""
    found = [kinds(profile) for profile in function.profiles]
    names = dict.fromkeys(name for each in found for name in each)
    medians = {name: statistics.median(each.get(name, 0.0) for each in found) for name in names}
    return dict(sorted(medians.items(), key=lambda pair: -pair[1]))


def _cycles(function: Function) -> Line:
    breakdown = mean_breakdown(function)
    if breakdown is None:
        return Line("cycles", ())
    shares = {meaning: 100 * getattr(breakdown, name) for name, meaning in PARTS.items()}
    return _shares("cycles", shares, "% of the launch's")


def _stalls(function: Function) -> Line:
    found = function.stalls()
    total = sum(found.values())
    shown = {reason: cycles for reason, cycles in found.items() if 100 * cycles >= _LEAST_PCT * total}
    items = (
        f"{reason} {cycles:.2f} ({cycles / total:.0%}{_meaning(reason, cycles / total)})"
        for reason, cycles in shown.items()
    )
    return Line("stalls", tuple(items), "cycles of a warp between two instructions", len(found) - len(shown))


def _meaning(reason: str, share: float) -> str:
    return f": {STALL_MEANINGS[reason]}" if share >= _MEANT and reason in STALL_MEANINGS else ""


def _traffic(function: Function) -> Line:
    found = medians_of(function, traffic_bytes)
    return Line("bytes", tuple(f"{name} {value_text(value, 'B')}" for name, value in found.items()))


def _shares(name: str, found: Mapping[str, float], unit: str) -> Line:
    known = {each: value for each, value in found.items() if not math.isnan(value)}
    shown = sorted((each for each, value in known.items() if value >= _LEAST_PCT), key=lambda each: -known[each])
    if not shown and known:
        shown = [max(known, key=known.__getitem__)]
    return Line(name, tuple(f"{each} {known[each]:.1f}" for each in shown), unit, len(known) - len(shown))


def _counts(name: str, found: Mapping[str, float], unit: str) -> Line:
    return Line(name, tuple(f"{each} {value_text(value, '')}" for each, value in found.items()), unit)


def _warps(function: Function) -> Iterator[str]:
    achieved, possible = _median(function, "occupancy_pct"), _median(function, "occupancy_limit_pct")
    if not math.isnan(achieved):
        yield f"occupancy {achieved:.1f}%" + ("" if math.isnan(possible) else f" of {possible:.1f}% possible")
    limits = {name: function.profiles[0].number(metric) for name, metric in OCCUPANCY_LIMITS.items()}
    known = {name: count for name, count in limits.items() if count and not math.isnan(count)}
    if known:
        fewest = min(known.values())
        limiting = " and ".join(name for name, count in known.items() if count == fewest)
        yield f"blocks an SM holds {fewest:.0f}, limited by {limiting}"
    yield from _valued(function, {"active a scheduler": "active_warps", "eligible a scheduler": "eligible_warps"})
    yield from _valued(function, {"issue slots used": "issue_active_pct", "IPC": "ipc", "instructions": "instructions"})
    yield from _valued(function, {"busiest SM over the mean": "sm_imbalance"})


def _launch(function: Function) -> Iterator[str]:
    names = {"blocks": "grid_blocks", "threads a block": "block_threads", "registers a thread": "registers"}
    yield from _valued(function, {**names, "shared memory a block": "shared_bytes", "waves": "waves", "SMs": "sms"})
    spills = _median(function, "spill_requests")
    yield from ([] if math.isnan(spills) else [f"spill instructions {value_text(spills, '')}"])


def _memory(function: Function) -> Iterator[str]:
    yield from _valued(
        function, {"L2 hits": "l2_hit_pct", "L1 hits": "l1_hit_pct", "DRAM bandwidth": "dram_bytes_per_s"}
    )
    sectors, excess = _median(function, "global_sectors"), _median(function, "excess_sectors")
    if sectors > 0:
        needless = f", {excess / sectors:.0%} of them needless" if excess > 0 else ""
        yield f"sectors asked of L2 {value_text(sectors, '')}{needless}"
    waves, conflicts = _median(function, "shared_wavefronts"), _median(function, "excess_wavefronts")
    if waves > 0:
        lost = f", {conflicts / waves:.0%} of them bank conflicts" if conflicts > 0 else ""
        yield f"shared wavefronts {value_text(waves, '')}{lost}"
    used = {
        "bytes used of a loaded sector's 32": "load_bytes_per_sector",
        "of a stored one's": "store_bytes_per_sector",
    }
    yield from _valued(function, used)


def _valued(function: Function, keys: Mapping[str, str]) -> Iterator[str]:
    for name, key in keys.items():
        value = _median(function, key)
        if not math.isnan(value):
            unit = BY_KEY[key].unit
            with_unit = unit_beside(unit) if unit in _BESIDE else ""  # the names of others tell the unit
            yield f"{name} {value_text(value, unit)}{with_unit}".strip()


def unit_beside(unit: str) -> str:
    """Returns the unit to put behind a value of `value_text`: `%`, ` µs`; empty if the value has it, or none is."""
    return "%" if unit == "%" else "" if unit in {"", "x", "B", "B/s"} else f" {unit}"


def _median(function: Function, key: str) -> float:
    value = function.median(BY_KEY[key])
    return math.nan if value is None else value


_BY_KIND = frozenset({"dram_read_bytes", "dram_write_bytes", "fma_pct", "alu_pct", "xu_pct", "lsu_pct"})
"""Quantities that are also among the kinds."""

_LEAST_CYCLES = 0.01  # least change of a part, in the launch's cycles, that is shown


def view_of_difference(difference: FunctionDifference, budget: int, notes: Sequence[str] = ()) -> CounterView:
    """Returns the text of a pair, within a budget of tokens if possible; `notes` stand at its head."""
    before, after = difference.before, difference.after
    named = "" if before.name == after.name else f", {before.name} -> {after.name}"
    lines = [f"{subject(before)} -> {subject(after)}{named}, Nsight Compute", _counted(difference), *notes]
    head = [*(f"// {line}" for line in lines), NO_TIME]
    return fit(head, list(lines_of_difference(difference)), budget)


def _counted(difference: FunctionDifference) -> str:
    text = f"{len(difference.changes)} of {difference.compared} quantities changed"
    if difference.has_spread:
        return f"{text}, by more than the launches of each spread"
    return f"{text}; of one launch each, so chance may be in it"


def lines_of_difference(difference: FunctionDifference) -> Iterator[Line]:
    """Yields the lines of changes, most important first."""
    before, after = difference.before, difference.after
    changes = {change.key: change for change in difference.changes}
    yield Line("time", tuple(_time(before, after)), required=True)
    yield Line("bound by", _bounds(before, after), required=True)
    yield Line("cycles of the launch", tuple(_changed_cycles(before, after)))
    yield Line("stalls", tuple(_changed_stalls(changes.values())), "cycles of a warp between two instructions")
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
    bounds = [str(nearest_peak(function) or "not known") for function in (before, after)]
    return (" -> ".join(bounds),)


def _changed_cycles(before: Function, after: Function) -> Iterator[str]:
    parts, cycles = (mean_breakdown(before), mean_breakdown(after)), (_cycle_count(before), _cycle_count(after))
    if parts[0] is None or parts[1] is None:
        return
    one, other = parts
    counts = {
        meaning: (getattr(one, name) * cycles[0], getattr(other, name) * cycles[1]) for name, meaning in PARTS.items()
    }
    for meaning in sorted(counts, key=lambda each: -abs(counts[each][1] - counts[each][0])):
        first, second = counts[meaning]
        if abs(second - first) >= _LEAST_CYCLES * max(cycles):
            yield f"{meaning} {first:,.0f} -> {second:,.0f} ({second - first:+,.0f})"


def _cycle_count(function: Function) -> float:
    return function.median(BY_KEY["cycles"]) or math.nan


def _changed_stalls(changes: Iterable[CounterChange]) -> Iterator[str]:
    found = [change for change in changes if change.group == STALLS]
    for change in sorted(found, key=lambda one: -abs(one.medians[1] - one.medians[0])):
        before, after = change.medians
        yield f"{change.title} {before:.2f} -> {after:.2f} ({after - before:+.2f})"


def _kinds(
    name: str,
    difference: FunctionDifference,
    kinds: Callable[[LaunchProfile], Mapping[str, float]],
    unit: str,
    unit_of_all: str,
) -> Line:
    """Returns a line of changes of one sort, largest first: per cent in points, else as a ratio."""
    before, after = ([kinds(profile) for profile in one.profiles] for one in (difference.before, difference.after))
    titles = dict.fromkeys(title for each in (*before, *after) for title in each)
    changes = []
    for title in titles:
        values = tuple(tuple(each.get(title, 0.0) for each in side) for side in (before, after))
        changes.append(CounterChange(title, title, unit, name, values[0], values[1]))
    moved = [one for one in changes if has_changed(one.before, one.after, unit)]
    return Line(name, tuple(map(_item, _largest_first(moved))), unit_of_all)


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


def functions_view(functions: Sequence[Function], code_of: CodeOf, budget: int) -> Answer:
    """Returns each function's view, each within the budget in tokens."""
    views = [view_of_function(function, budget, _changed([function], code_of)) for function in functions]
    return _answer(views, lambda: [function_document(function, code_of) for function in functions])


def differences_view(differences: Sequence[FunctionDifference], code_of: CodeOf, budget: int) -> Answer:
    """Returns a view of the changes per pair, each within the budget in tokens."""
    views = [view_of_difference(each, budget, _changed((each.before, each.after), code_of)) for each in differences]
    return _answer(views, lambda: [difference_document(difference, code_of) for difference in differences])


def _changed(functions: Iterable[Function], code_of: CodeOf) -> list[str]:
    return list(dict.fromkeys(other_code(one.label) for one in functions if is_changed(one, code_of)))


def _answer(views: Sequence[CounterView], documents: Callable[[], list[dict[str, Any]]]) -> Answer:
    return Answer(
        text=lambda _width: [lambda _console: print_text("\n\n".join(view.text for view in views))],
        document=lambda: [
            document | {"for_model": _document(view)} for document, view in zip(documents(), views, strict=True)
        ],
    )


def _document(view: CounterView) -> dict[str, Any]:
    return {
        "budget": view.budget,
        "tokens": view.tokens,
        "over": view.excess,
        "most_items": view.most,
        "left_out": list(view.left_out),
        "text": view.text,
    }
