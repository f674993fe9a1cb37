"""Arranges figures in rows and columns, by the keys of `--rows`, `--cols` and `--filter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gdnbench.analyse.figure import SHAPE, Figure, FigureSource, WorkloadKeys, workload_value
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.declaration import Params
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.wording import did_you_mean, first_of

KeyValues = tuple[str, ...]  # the values of some keys for a figure, in the keys' order

DEFAULT_COLUMNS = ("run",)
_LABEL_KEYS = ("label", "kernel", "params")
_USUAL_KEYS = {"run", "gpu", "timer", "label"}  # a hint names these and the chart axis first
_FIXED_BY = {"label": _LABEL_KEYS, "kernel": _LABEL_KEYS, "gpu": ("run",)}


@dataclass(frozen=True)
class GridEntry:
    """A figure and its source; the params of a floor with other forms in other sources do not distinguish cases."""

    figure: Figure
    source: FigureSource
    has_other_forms: bool = False

    def value(self, key: str) -> str:
        """The figure's value for a key; empty for a param that its kernel lacks."""
        read = _READERS.get(key)
        if read:
            return read(self)
        return workload_value(self.figure.workload, key) or str(self.figure.params.get(key, ""))


def workload_keys(entries: Iterable[GridEntry]) -> WorkloadKeys:
    """The keys of the workloads of some figures."""
    return WorkloadKeys.of(entry.figure.workload for entry in entries)


_READERS: Mapping[str, Callable[[GridEntry], str]] = {
    "run": lambda entry: entry.source.name,
    "gpu": lambda entry: entry.source.gpu,
    "op": lambda entry: entry.figure.op,
    "kernel": lambda entry: entry.figure.kernel,
    "label": lambda entry: entry.figure.label,
    "params": lambda entry: "" if entry.has_other_forms else str(entry.figure.params),
    "timer": lambda entry: entry.figure.timer,
}


@dataclass(frozen=True)
class GridRow:
    """One case in every column: its values for the row keys, and an entry or None for each column."""

    names: KeyValues
    entries: tuple[GridEntry | None, ...]


@dataclass(frozen=True)
class FigureGrid:
    """Rows that can be compared, and those that cannot (`alone`); every column is compared with the first."""

    row_keys: KeyValues
    column_keys: KeyValues
    columns: tuple[KeyValues, ...]
    rows: tuple[GridRow, ...]
    alone: tuple[GridRow, ...]


def entries_of(sources: Sequence[FigureSource]) -> list[GridEntry]:
    """Every figure of every source; one without params takes those of the others of its case, if these agree."""
    entries = [GridEntry(figure, source) for source in sources for figure in source.figures]
    known: dict[tuple[str, str, Workload], set[Params]] = {}
    cases = [(entry.figure.op, entry.figure.label, entry.figure.workload) for entry in entries]
    for entry, case in zip(entries, cases, strict=True):
        if entry.figure.params:
            known.setdefault(case, set()).add(entry.figure.params)
    return [_with_params(entry, known.get(case, set())) for entry, case in zip(entries, cases, strict=True)]


def _with_params(entry: GridEntry, known: set[Params]) -> GridEntry:
    if entry.figure.is_bare_floor and len(known) > 1:
        return replace(entry, has_other_forms=True)
    if entry.figure.params or len(known) != 1:
        return entry
    (params,) = known
    return GridEntry(replace(entry.figure, params=params), entry.source)


def _known_keys(entries: Sequence[GridEntry]) -> list[str]:
    params = {name for entry in entries for name in entry.figure.params}
    return [*_READERS, *workload_keys(entries).names, *sorted(params)]


def parse_keys(option: str, text: str, entries: Sequence[GridEntry]) -> tuple[str, ...]:
    """The keys in text such as `kernel,B`; UnknownNameError for one that these figures lack, UsageError for none."""
    keys = tuple(filter(None, (part.strip() for part in text.split(","))))
    for key in keys:
        _check_key(option, key, entries)
    if not keys or len(set(keys)) != len(keys):
        raise UsageError(f"{option} {text!r} needs different keys, separated by commas", f"as in {option} kernel,B")
    return keys


def _check_key(option: str, key: str, entries: Sequence[GridEntry]) -> None:
    known = _known_keys(entries)
    if key not in known:
        meant = did_you_mean(key, known, "", most=1)
        raise UnknownNameError(f"{option} has no key {key}", f"{meant} there are {', '.join(known)}".strip())


def default_rows(columns: Sequence[str], entries: Sequence[GridEntry]) -> tuple[str, ...]:
    """The default row keys: those that identify a case, without what varies across the columns."""
    rows = ["op", SHAPE, "label", "params"]
    if len({entry.source.name for entry in entries}) > 1:
        rows.append("run")
    keys = workload_keys(entries)
    if any(column in keys.names and column != SHAPE for column in columns):
        rows[1:2] = keys.parts
    if any(column not in _READERS and column not in keys.names for column in columns):
        rows = ["kernel" if row == "label" else row for row in rows if row != "params"]
    gone = {key for column in columns for key in (column, *_FIXED_BY.get(column, keys.fixed_by(column)))}
    return tuple(row for row in rows if row not in gone)


def filter_entries(entries: Sequence[GridEntry], text: str) -> list[GridEntry]:
    """The figures that match every term of `kernel=decode-v4* B=1,8`; UsageError where nothing does."""
    chosen = list(entries)
    for term in text.split():
        key, equals, globs = term.partition("=")
        if not key or not equals or not globs:
            raise UsageError(f"--filter {term!r} is not KEY=GLOB", "as in --filter 'kernel=decode-v4* B=1,8'")
        _check_key("--filter", key, entries)
        before = list(dict.fromkeys(entry.value(key) for entry in chosen))
        chosen = [entry for entry in chosen if any(fnmatchcase(entry.value(key), glob) for glob in globs.split(","))]
        if not chosen:
            raise UsageError(f"--filter {term} leaves nothing", f"{key} may be {first_of(before)}")
    return chosen


def join(entries: Sequence[GridEntry], row_keys: KeyValues, column_keys: KeyValues) -> FigureGrid:
    """Puts figures into rows and columns, each in the order of its first figure; UsageError if none can be compared."""
    columns = list(dict.fromkeys(_values(entry, column_keys) for entry in entries))
    if len(columns) < 2:
        only = " ".join(columns[0]) if columns else "nothing"
        hint = "give two sources, or say what varies: --cols label, --cols kernel, --cols B"
        if len({entry.source.name for entry in entries}) > 1:
            hint = f"the sources do not differ in {', '.join(column_keys)}: leave out --cols, or try --cols label"
        raise UsageError(f"there is one column only, {only}: nothing to compare it with", hint)
    cells: dict[KeyValues, dict[KeyValues, GridEntry]] = {}
    for entry in entries:
        row = cells.setdefault(_values(entry, row_keys), {})
        column = _values(entry, column_keys)
        if column in row:
            raise _two_in_a_cell(row[column], entry, entries, (*row_keys, *column_keys))
        row[column] = entry
    rows = [GridRow(names, tuple(found.get(column) for column in columns)) for names, found in cells.items()]
    paired = [row for row in rows if row.entries[0] and any(row.entries[1:])]
    if not any(entry and entry.figure.status is Status.OK for row in paired for entry in row.entries):
        raise _nothing_in_common(entries, columns, column_keys, row_keys)
    alone = [row for row in rows if not (row.entries[0] and any(row.entries[1:]))]
    return FigureGrid(row_keys, column_keys, tuple(columns), tuple(paired), tuple(alone))


def _values(entry: GridEntry, keys: KeyValues) -> KeyValues:
    return tuple(entry.value(key) for key in keys)


def _two_in_a_cell(one: GridEntry, other: GridEntry, entries: Sequence[GridEntry], used: KeyValues) -> UsageError:
    where = f"{one.figure.label} at {one.figure.workload}"
    differing = [key for key in _known_keys(entries) if key not in used and one.value(key) != other.value(key)]
    if not differing:
        return UsageError(f"{one.source.name} has {where} twice", "the file is damaged, or lists a figure twice")
    usual = {*_USUAL_KEYS, one.figure.workload.spec.x}
    first = next((key for key in differing if key in usual), differing[0])
    values = f"{one.value(first) or 'none'} and {other.value(first) or 'none'}"
    hint = f"add {first} to --rows or --cols, or choose one with --filter '{first}={one.value(first)}'"
    return UsageError(f"a cell would hold two figures, which differ in {', '.join(differing)}: {values}", hint)


def _nothing_in_common(
    entries: Sequence[GridEntry], columns: Sequence[KeyValues], column_keys: KeyValues, row_keys: KeyValues
) -> UsageError:
    lines = []
    for column in columns:
        inside = [entry for entry in entries if _values(entry, column_keys) == column]
        labels = first_of(list(dict.fromkeys(entry.figure.label for entry in inside)), most=4)
        workloads = first_of(list(dict.fromkeys(str(entry.figure.workload) for entry in inside)), most=4)
        lines.append(f"{' '.join(column)} has {labels} at {workloads}")
    lines[-1] += f"; a case is identified by {', '.join(row_keys)}: --rows joins by less"
    return UsageError("there is no common case with a time", "\n".join(lines))
