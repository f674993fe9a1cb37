"""Describes the run effects that were taken out of the ratios of two runs, a plain line each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gdnbench.analyse.comparison import ColumnComparison, SourceComparison
from gdnbench.analyse.grid import GridEntry
from gdnbench.analyse.ratio import TimeRatio
from gdnbench.analyse.run_change import LAUNCH_OF_A_HOST_US, RunChange, RunPair, TimeKind, is_additive
from gdnbench.model.workload import Workload
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US
from gdnbench.stats.run_effect import RunEffect
from gdnbench.wording import plural

_TOLD_APART_US = 0.02  # workloads that differ by less share one number
_TWICE = 2.0  # standard deviations in half of a 95 % interval, about


def run_change_lines(side: SourceComparison, column: ColumnComparison) -> list[str]:
    """Returns, per pair of runs of a column, what was taken out, which times are judged, and what is unknown."""
    lines = []
    for one, other, runs in column.runs:
        ratios = _ratios_of(side, column, one, other)
        for kind in TimeKind:
            if of_kind := [each for each in ratios if each[1].kind is kind]:
                lines += _lines(f"{other} against {one}", runs, kind, of_kind, raw=side.settings.raw)
        lines += _missing_kernel_times(one, other, runs, ratios)
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
    pair: str,
    runs: RunPair,
    kind: TimeKind,
    ratios: Sequence[tuple[tuple[GridEntry, GridEntry], TimeRatio]],
    *,
    raw: bool,
) -> list[str]:
    change = runs.stream if kind is TimeKind.STREAM else runs.kernel
    if not change.same_model:
        return [_other_model(pair, kind, len(ratios))]
    known = change.effect and change.effect.peers
    lines = [_taken_out(pair, change, kind, raw=raw)] if known else []
    unknown = [row for row in ratios if not change.effect_on(row[0][0].figure, row[0][1].figure).peers]
    if unknown and kind is TimeKind.STREAM:
        lines.append(_unknown_launch(pair, change, len(unknown), len(ratios)))
    if kind is TimeKind.KERNEL:
        lines.insert(0, f"{pair}: {_count(ratios)} of kernel times (CUPTI), which hold no launch: the cards differ")
    return lines


def _count(ratios: Sequence[object]) -> str:
    return "1 ratio is" if len(ratios) == 1 else f"{len(ratios)} ratios are"


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


def _taken_out(pair: str, change: RunChange, kind: TimeKind, *, raw: bool) -> str:
    effect = change.effect
    assert effect
    which = ("floor of other sources", "floors of other sources") if change.presumed else ("unchanged case", "")
    cases = f"from {plural(effect.peers, *which)}"
    taken = "left in, and added to the intervals (--raw)" if raw else "taken out; --raw keeps it"
    if kind is TimeKind.KERNEL:
        return f"{pair}: kernel times of this run {math.expm1(effect.whole.mean):+.2%} as a whole, {cases}: {taken}"
    if not is_additive(change.unchanged[0][1].timer):
        return f"{pair}: times of this run {math.expm1(effect.whole.mean):+.1%} as a whole, {cases}: {taken}"
    return f"{pair}: launch of this run {_launches(effect)}, {cases}: {taken}"


def _launches(effect: RunEffect) -> str:
    """Returns `+1.65 µs`, with the range over workloads if they differ."""
    # Adding 0.0 turns -0.0 into 0.0: "-0.00 µs" would look like a finding.
    told = f"{round(effect.whole.mean, 2) + 0.0:+.2f} µs"
    by_workload = {place: estimate.mean for place, estimate in effect.workloads.items()}
    low, high = min(by_workload, key=by_workload.__getitem__), max(by_workload, key=by_workload.__getitem__)
    if by_workload[high] - by_workload[low] < _TOLD_APART_US:
        return told
    ends = [f"{by_workload[place]:+.2f} at {workload_name(place)}" for place in (low, high)]
    return f"{told} ({' to '.join(ends)})"


def workload_name(place: object) -> str:
    """Returns the workload's name of a pair of op and workload."""
    workload = place[1] if isinstance(place, tuple) else place
    return str(workload) if isinstance(workload, Workload) else str(place)


def _unknown_launch(pair: str, change: RunChange, unknown: int, of: int) -> str:
    host = 0.0 if change.same_card else LAUNCH_OF_A_HOST_US
    apart = _TWICE * math.hypot(host, USUAL_LAUNCH_SD_US) * math.sqrt(2.0)
    whose = "on one card" if change.same_card else "perhaps on two hosts"
    which = "no" if unknown == of else f"for {unknown} of {of} cases no other"
    return f"{pair}: {which} unchanged case tells the launch, {whose}: ±{apart:.1f} µs are in the intervals for it"


def _missing_kernel_times(
    one: str, other: str, runs: RunPair, ratios: Sequence[tuple[tuple[GridEntry, GridEntry], TimeRatio]]
) -> list[str]:
    """Returns, if stream times are judged for want of kernel times, which side lacks them and how to get them."""
    if runs.stream.same_card:
        return []
    lacking = [pair for pair, ratio in ratios if ratio.kind is TimeKind.STREAM]
    if not lacking or not is_additive(lacking[0][1].figure.timer):
        return []
    sides = [
        letter
        for letter, place in ((one, 0), (other, 1))
        if any(pair[place].figure.kernel_time is None for pair in lacking)
    ]
    return [
        f"{other} against {one}: another card, and {' and '.join(sides)} without kernel times, so stream times are "
        "judged; a run without --timer measures both"
    ]
