"""Figures in rows and columns: what stands beside what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.compare.filter import some
from gdnbench.compare.keys import Entry, known_keys
from gdnbench.errors import UsageError
from gdnbench.model import Status

Names = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One case in every column.

    Attributes:
        names: what the row keys say of it.
        entries: one for each column; None where the column lacks it.
    """

    names: Names
    entries: tuple[Entry | None, ...]

    @property
    def has_a_time(self) -> bool:
        """Whether any column measured it."""
        return any(entry and entry.figure.status is Status.OK for entry in self.entries)


@dataclass(frozen=True)
class Grid:
    """Rows that have a partner, and those that have none.

    Attributes:
        row_keys: what tells one row from another.
        column_keys: what tells one column from another.
        columns: what the column keys say of each; the first is what the others are compared with.
        rows: cases of the first column that another one has, too.
        alone: the others, which cannot be compared.
    """

    row_keys: Names
    column_keys: Names
    columns: tuple[Names, ...]
    rows: tuple[Row, ...]
    alone: tuple[Row, ...]


def join(entries: Sequence[Entry], row_keys: Names, column_keys: Names) -> Grid:
    """Sorts figures into a grid.

    Raises:
        UsageError: if there is one column only, a cell would hold several figures, or no row has a partner.
    """
    columns = list(dict.fromkeys(_names(entry, column_keys) for entry in entries))
    if len(columns) < 2:
        only = " ".join(columns[0]) if columns else "nothing"
        hint = "give two sources, or say what varies: --cols label, --cols kernel, --cols B"
        if len({entry.source.name for entry in entries}) > 1:
            hint = f"the sources do not differ in {', '.join(column_keys)}: leave out --cols, or try --cols label"
        raise UsageError(f"there is one column only, {only}: nothing to compare it with", hint)
    cells: dict[Names, dict[Names, Entry]] = {}
    for entry in entries:
        row = cells.setdefault(_names(entry, row_keys), {})
        column = _names(entry, column_keys)
        if column in row:
            _refuse([row[column], entry], entries, (*row_keys, *column_keys))
        row[column] = entry
    rows = [Row(names, tuple(found.get(column) for column in columns)) for names, found in cells.items()]
    paired = [row for row in rows if row.entries[0] and any(row.entries[1:])]
    if not any(row.has_a_time for row in paired):
        _refuse_apart(entries, columns, column_keys, row_keys)
    return Grid(row_keys, column_keys, tuple(columns), tuple(paired), tuple(row for row in rows if row not in paired))


def _names(entry: Entry, keys: Names) -> Names:
    return tuple(entry.value(key) for key in keys)


def _refuse(pair: list[Entry], entries: Sequence[Entry], used: Names) -> None:
    one, other = pair
    where = f"{one.figure.label} at {one.figure.shape}"
    differing = [key for key in known_keys(entries) if key not in used and one.value(key) != other.value(key)]
    if not differing:
        raise UsageError(f"{one.source.name} has {where} twice", "the file is damaged, or lists a figure twice")
    first = next((key for key in differing if key in {"run", "gpu", "timer", "label", "B"}), differing[0])
    values = f"{one.value(first) or 'none'} and {other.value(first) or 'none'}"
    hint = f"add {first} to --rows or --cols, or choose one with --filter '{first}={one.value(first)}'"
    raise UsageError(f"a cell would hold two figures, which differ in {', '.join(differing)}: {values}", hint)


def _refuse_apart(entries: Sequence[Entry], columns: Sequence[Names], column_keys: Names, row_keys: Names) -> None:
    told = []
    for column in columns:
        mine = [entry for entry in entries if _names(entry, column_keys) == column]
        labels = some(list(dict.fromkeys(entry.figure.label for entry in mine)), most=4)
        shapes = some(list(dict.fromkeys(str(entry.figure.shape) for entry in mine)), most=4)
        told.append(f"{' '.join(column)} has {labels} at {shapes}")
    wider = "; a case is told by " + ", ".join(row_keys) + ": --rows joins by less"
    raise UsageError("there is no common case with a time", "\n".join(told) + wider)
