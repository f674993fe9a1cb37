"""What else may explain a difference: conditions, sources, timers and shapes in which two columns differ."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.compare.figure import Kind, Source
from gdnbench.compare.join import Grid, Row
from gdnbench.compare.keys import Entry
from gdnbench.model import Shape

OF_THE_CARD = ("GPU", "memory clock", "highest SM clock", "power limit", "ECC")
_SHORT = 12  # characters of a commit, a card's id


def warnings_of(grid: Grid, sources: Sequence[Source], letters: Sequence[str]) -> list[str]:
    """A line for each kind of difference; what is the same everywhere, or known of one alone, is silent."""
    lines = [
        f"{letter}: {warning}" for source, letter in zip(sources, letters, strict=True) for warning in source.warnings
    ]
    lines += _differing_conditions(sources, letters)
    lines += _differing_timers(grid)
    lines += _differing_shapes(grid)
    changed = _changed(grid.rows)
    if changed:
        lines.append(f"sources differ: {', '.join(changed)}")
    return lines


def _differing_conditions(sources: Sequence[Source], letters: Sequence[str]) -> list[str]:
    measured = [
        (source, letter) for source, letter in zip(sources, letters, strict=True) if source.kind is Kind.MEASURED
    ]
    names = dict.fromkeys(name for source, _ in measured for name in source.conditions)
    if len({source.gpu for source, _ in measured}) > 1:  # other models: what each card is like goes without saying
        names = dict.fromkeys(name for name in names if name not in OF_THE_CARD)
    told = []
    for name in names:
        values = [source.conditions.get(name, "")[:_SHORT] for source, _ in measured]
        if len({*values} - {""}) > 1:
            told.append(f"{_word(name)} " + " | ".join(value or "?" for value in values))
    among = " | ".join(letter for _, letter in measured)
    return [f"conditions differ ({among}): {'; '.join(told)}"] if told else []


def _word(name: str) -> str:
    return "card" if name == "GPU" else name


def _differing_timers(grid: Grid) -> list[str]:
    """Times of different timers are not of the same thing: one holds the launch, another does not."""
    pairs = {
        (first.figure.timer, later.figure.timer): None
        for row in grid.rows
        for first, later in _pairs(row)
        if first.figure.timer != later.figure.timer and first.figure.timer and later.figure.timer
    }
    return [f"timers differ: {one} | {other}, which do not time the same span" for one, other in pairs]


def _differing_shapes(grid: Grid) -> list[str]:
    """A kernel has another time at another shape; where the columns are shapes, that is what is asked."""
    if not {"shape", "heads", "B", "HQ", "HV", "K", "V"}.isdisjoint(grid.column_keys):
        return []
    pairs = {
        _parts_that_differ(first.figure.shape, later.figure.shape): None
        for row in grid.rows
        for first, later in _pairs(row)
        if first.figure.shape != later.figure.shape
    }
    return [f"shapes differ: {one} | {other}, so the ratios are not of the kernels alone" for one, other in pairs]


def _parts_that_differ(one: Shape, other: Shape) -> tuple[str, str]:
    """Heads by their name, other sizes with their axis; what is the same in both is left out."""
    told = [(one.heads, other.heads)] if one.heads != other.heads else []
    told += [
        (f"{axis}={size}", f"{axis}={other.axes()[axis]}")
        for axis, size in one.axes().items()
        if axis not in {"HQ", "HV"} and size != other.axes()[axis]
    ]
    return " ".join(left for left, _ in told), " ".join(right for _, right in told)


def _changed(rows: Sequence[Row]) -> list[str]:
    """Kernels whose sources are known on both sides and differ."""
    return list(
        dict.fromkeys(
            first.figure.kernel
            for row in rows
            for first, later in _pairs(row)
            if first.figure.kernel == later.figure.kernel
            and first.figure.source_hash
            and later.figure.source_hash
            and first.figure.source_hash != later.figure.source_hash
        )
    )


def _pairs(row: Row) -> list[tuple[Entry, Entry]]:
    first = row.entries[0]
    return [(first, later) for later in row.entries[1:] if first and later]
