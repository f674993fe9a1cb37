"""Other causes of a difference: conditions, sources, timers and workloads that are not the same on both sides.

`warnings_of` lists them for the columns of a comparison, `changes_between` for two runs of a kernel's history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.analyse.figure import Figure, FigureSource, differing_parts
from gdnbench.analyse.grid import FigureGrid, GridEntry, workload_keys
from gdnbench.analyse.runs import StoredCase, StoredRun
from gdnbench.model.case import same_sources
from gdnbench.stats.estimators import INTERQUARTILE

Timed = Figure | StoredCase
CARD = "card"
SOURCE = "source"
PARAMS = "params"
METHOD = "method"
ANCHOR = "anchor"

_OF_THE_CARD = ("GPU", "memory clock", "highest SM clock", "power limit", "ECC")
_SHORT = 12  # characters of a commit, a card's id
_DEFAULTS = {"trim": f"{INTERQUARTILE:.0%}", "inputs": "the first"}
"""The values of runs that do not record them."""
_PLAIN = {"False": "default", "True": "plain", "": "of an older kind"}
_NOT_CAUSES = frozenset(
    {"GPU", "plain", "trim", "commit", "samples"}
)  # listed under another name among the changes, or not a cause


def warnings_of(grid: FigureGrid, sources: Sequence[FigureSource], letters: Sequence[str]) -> list[str]:
    """The sources' own warnings, then a line for each kind of difference between a later column and the first."""
    lines = [
        f"{letter}: {warning}" for source, letter in zip(sources, letters, strict=True) for warning in source.warnings
    ]
    pairs = [(first, later) for row in grid.rows if (first := row.entries[0]) for later in row.entries[1:] if later]
    lines += _differing_conditions(sources, letters)
    lines += _differing_timers(pairs)
    lines += [] if _is_by_workload(grid) else _differing_workloads(pairs)
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


def _is_by_workload(grid: FigureGrid) -> bool:
    entries = [entry for row in (*grid.rows, *grid.alone) for entry in row.entries if entry]
    return workload_keys(entries).has_one_of(grid.column_keys)


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
    """Kernels of equal sources for which a tuner chose other code."""
    told = dict.fromkeys(
        f"{first.figure.label} {first.figure.workload}"
        for first, later in pairs
        if first.figure.kernel == later.figure.kernel
        and first.figure.workload == later.figure.workload
        and first.figure.is_tuned_otherwise(later.figure)
    )
    return [f"a tuner chose other code: {', '.join(told)}"] if told else []


def _differing_forms(pairs: Sequence[tuple[GridEntry, GridEntry]]) -> list[str]:
    """Floors whose fastest forms differ: they are one case, but the code is not the same."""
    told = dict.fromkeys(
        f"{first.figure.label} {first.figure.workload}: {first.figure.params} | {later.figure.params}"
        for first, later in pairs
        if first.has_other_forms
        and (first.figure.label, first.figure.workload) == (later.figure.label, later.figure.workload)
        and _differs(str(first.figure.params), str(later.figure.params))
    )
    return [f"forms differ: {'; '.join(told)}"] if told else []


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
    """What changed besides the time: `source`, `params`, `method`, `anchor`, `card`, the driver and library versions.

    `before` and `after` are a run and the kernel in it; `anchor` is the label whose sources count as `anchor`.
    """
    (run, figure), (later, now) = before, after
    changes = {
        SOURCE: ConditionChange(figure.source_hash, now.source_hash),
        PARAMS: ConditionChange(str(figure.params), str(now.params)),
        METHOD: ConditionChange(method_of(run, figure), method_of(later, now)),
        ANCHOR: ConditionChange(run.source_hash(anchor), later.source_hash(anchor)),
        CARD: ConditionChange(card_of(run), card_of(later)),
        **_condition_changes(run.conditions, later.conditions),
    }
    return {
        name: change
        for name, change in changes.items()
        # Params are always known: empty ones are a value.
        if _differs(change.before, change.after) or (name == PARAMS and change.before != change.after)
    }


def _condition_changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, ConditionChange]:
    names = [name for name in dict.fromkeys([*before, *after]) if name not in _NOT_CAUSES]
    return {name: ConditionChange(before.get(name, ""), after.get(name, "")) for name in names}


def same_method(before: StoredRun, old: Timed, after: StoredRun, new: Timed) -> bool:
    """Whether two runs measured in the same way, so that a change between them is not the method's."""
    return method_of(before, old) == method_of(after, new)


def method_of(run: StoredRun, figure: Timed) -> str:
    """How a time was measured: the timer's name, or for NVBench `default` or `plain`. Empty without a time.

    Includes the trim, unless that is a quarter at either end.
    """
    if not figure.timer:
        return ""
    conditions = run.conditions
    trim = conditions.get("trim", _DEFAULTS["trim"])
    trimmed = "" if trim == _DEFAULTS["trim"] else f", {trim} trimmed"
    if figure.timer != "nvbench":
        return figure.timer + trimmed
    return _PLAIN.get(conditions.get("plain", ""), "default") + trimmed


def card_of(run: StoredRun) -> str:
    """The first eight digits of the card's UUID; empty if unknown."""
    return run.conditions.get("GPU", "").removeprefix("GPU-")[:8]
