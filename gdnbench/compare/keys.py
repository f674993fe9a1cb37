"""What a figure can be sorted by: the keys of `--rows`, `--cols` and `--filter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from gdnbench.compare.figure import Figure, Source
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model import Params, Shape

AXES = ("B", "HQ", "HV", "K", "V")
DEFAULT_COLUMNS = ("run",)
_IMPLIED = {
    "label": ("label", "kernel", "params"),
    "kernel": ("label", "kernel", "params"),
    "shape": ("shape", *AXES, "heads"),
    "heads": ("heads", "HQ", "HV"),
    "gpu": ("run",),
}
"""A key that varies across the columns takes these out of the rows."""


@dataclass(frozen=True)
class Entry:
    """A figure and where it comes from."""

    figure: Figure
    source: Source

    def value(self, key: str) -> str:
        """What a key says of it; empty for a param that its kernel lacks."""
        read = _READERS.get(key)
        return read(self) if read else str(self.figure.params.get(key, ""))


def _axis(name: str) -> Callable[[Entry], str]:
    return lambda entry: str(getattr(entry.figure.shape, name))


_READERS: Mapping[str, Callable[[Entry], str]] = {
    "run": lambda entry: entry.source.name,
    "gpu": lambda entry: entry.source.gpu,
    "op": lambda entry: entry.figure.op,
    "kernel": lambda entry: entry.figure.kernel,
    "label": lambda entry: entry.figure.label,
    "params": lambda entry: str(entry.figure.params),
    "timer": lambda entry: entry.figure.timer,
    "shape": lambda entry: str(entry.figure.shape),
    "heads": lambda entry: entry.figure.shape.heads,
    **{axis: _axis(axis) for axis in AXES},
}


def entries_of(sources: Sequence[Source]) -> list[Entry]:
    """Every figure of every source; one that tells no params has those of its label and shape, if only one is known."""
    entries = [Entry(figure, source) for source in sources for figure in source.figures]
    known: dict[tuple[str, str, Shape], dict[Params, None]] = {}
    for entry in entries:
        if entry.figure.params:
            known.setdefault(_name(entry.figure), {})[entry.figure.params] = None
    return [_with_params(entry, list(known.get(_name(entry.figure), ()))) for entry in entries]


def _name(figure: Figure) -> tuple[str, str, Shape]:
    return figure.op, figure.label, figure.shape


def _with_params(entry: Entry, known: list[Params]) -> Entry:
    if entry.figure.params or len(known) != 1:
        return entry
    return Entry(replace(entry.figure, params=known[0]), entry.source)


def known_keys(entries: Sequence[Entry]) -> list[str]:
    """Every key that these figures have, params included."""
    params = {name for entry in entries for name in entry.figure.params}
    return [*_READERS, *sorted(params)]


def parse_keys(option: str, text: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """`kernel,B` as keys.

    Raises:
        UnknownNameError: for a key that these figures do not have.
        UsageError: for none at all, or one twice.
    """
    keys = tuple(filter(None, (part.strip() for part in text.split(","))))
    for key in keys:
        check_key(option, key, entries)
    if not keys or len(set(keys)) != len(keys):
        raise UsageError(f"{option} {text!r} needs different keys, separated by commas", f"as in {option} kernel,B")
    return keys


def check_key(option: str, key: str, entries: Sequence[Entry]) -> None:
    """Raises UnknownNameError for a key that these figures do not have."""
    known = known_keys(entries)
    if key not in known:
        near = get_close_matches(key, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UnknownNameError(f"{option} has no key {key}", f"{meant}there are {', '.join(known)}")


def default_rows(columns: Sequence[str], entries: Sequence[Entry]) -> tuple[str, ...]:
    """The keys of a row where the user gave none: those that tell a case, less what varies across the columns."""
    rows = ["op", "shape", "label", "params"]
    if len({entry.source.name for entry in entries}) > 1:
        rows.append("run")
    if any(column in (*AXES, "heads") for column in columns):
        rows[1:2] = ["heads", *(axis for axis in ("B", "K", "V"))]
    if any(column not in _READERS for column in columns):  # a param, which is part of a label
        rows = ["kernel" if row == "label" else row for row in rows if row != "params"]
    gone = {key for column in columns for key in (column, *_IMPLIED.get(column, ()))}
    return tuple(row for row in rows if row not in gone)
