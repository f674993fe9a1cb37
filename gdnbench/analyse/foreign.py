"""Reads figures that others measured: files of other tools, and published tables, each figure with its citation.

A file is NVBench's JSON, or CSV with a kernel and a time in each row; a published table is
`results/published/<name>/figures.csv`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gdnbench.analyse.figure import (
    Figure,
    FigureSource,
    SourceKind,
    assumed_sizes,
    join_label,
    parse_value,
    read_axes,
    role_by_name,
    split_label,
)
from gdnbench.analyse.nvbench_json import read_nvbench
from gdnbench.catalog.catalog import op_named
from gdnbench.catalog.select import DEFAULT_OP
from gdnbench.errors import RunFormatError, ShapeError, UnknownNameError, UsageError
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.origin import EVIDENCE
from gdnbench.regular_file import MOST_BYTES, read_regular, unpack
from gdnbench.store.files import read_table
from gdnbench.store.find import PUBLISHED_FOLDER

REQUIRED = ("kernel", "time_us")
OPTIONAL = ("gpu", "timer", "op", "time_lo_us", "time_hi_us")  # beside the axes of the op

_GZIP = b"\x1f\x8b"
_UNDERSTOOD = (
    "gdnbench reads NVBench's JSON (write it with --json or --jsonbin; .gz as well), CSV with the columns "
    f"{' and '.join(REQUIRED)}, and the folders of its own runs"
)
_MEND = "correct the file; its times are in microseconds, with a point before the decimals"


def load_foreign(path: Path) -> FigureSource:
    """Reads a file of another tool: NVBench's JSON or CSV, gzipped or not, told apart by first character and name.

    Raises:
        UsageError: if there is no such file, or it is of neither format.
        RunFormatError: if it is of one of them and damaged.
    """
    text = _read_text(path)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".json") or text.lstrip().startswith("{"):
        document = _parse_json(path, text)
        if not (isinstance(document, dict) and isinstance(document.get("benchmarks"), list)):
            raise UsageError(f"{path} is JSON, but not NVBench's: it has no list of benchmarks", _UNDERSTOOD)
        return read_nvbench(path, document)
    columns = _header(text)
    if "run_id" in columns:
        raise UsageError(f"{path} is a part of a gdnbench run", f"give the run's folder: {path.parent}")
    if name.endswith(".csv") or any(column in columns for column in REQUIRED):
        return _read_csv(path, text)
    raise UsageError(f"{path} is neither NVBench's JSON nor CSV with figures", _UNDERSTOOD)


def _read_text(path: Path) -> str:
    try:
        data = read_regular(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", _UNDERSTOOD) from error
    if data.startswith(_GZIP):
        try:
            data = unpack(data)
        except ValueError as error:
            raise RunFormatError(f"{path} is damaged: {error}", "copy it again from where it was written") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} holds more than {MOST_BYTES >> 20} MiB, which no table of figures does", _UNDERSTOOD)
    try:
        return data.decode("utf-8-sig")  # spreadsheets put a byte order mark before CSV
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: {error}", _UNDERSTOOD) from error


def _parse_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "was the program that wrote it stopped? run it again, or copy the file again"
        raise RunFormatError(f"{path} is cut off or not JSON: {error}", hint) from error


def _header(text: str) -> list[str]:
    return [cell.strip() for cell in text.partition("\n")[0].split(",")]


def _read_csv(path: Path, text: str) -> FigureSource:
    """The figures of a CSV file with the columns `REQUIRED`, any of `OPTIONAL`, and axes of the op.

    An empty cell takes a default: the default size of an axis, the op `DEFAULT_OP`, an unknown GPU and timer. An empty
    time is a kernel that was not measured. RunFormatError is raised if a column is missing, a cell that should be a
    number is not, a kernel comes twice, or the file is of several GPUs.
    """
    figures: dict[tuple[str, Workload, str], Figure] = {}
    gpus = set()
    for line, row in _rows(path, text):
        try:
            figure = _figure_of_row(row)
        except (ValueError, ShapeError, UnknownNameError) as error:
            raise RunFormatError(f"{path} line {line}: {error}", _MEND) from error
        if figure.key in figures:
            message = f"{path} line {line}: {figure.label} at {figure.workload} is there a second time"
            raise RunFormatError(message, "give each kernel one row for each workload and timer")
        figures[figure.key] = figure
        gpus.add(gpu_slug(row["gpu"]) if row.get("gpu") else "")
    if not figures:
        raise RunFormatError(f"{path} holds no figures", "it has a header and no rows below it")
    if len(gpus) > 1:
        found = ", ".join(sorted(gpu or "unknown" for gpu in gpus))
        raise RunFormatError(f"{path} is of several GPUs ({found})", "give each GPU a file of its own")
    return FigureSource(
        name=path.name,
        kind=SourceKind.FOREIGN,
        gpu=gpus.pop(),
        figures=tuple(figures.values()),
        warnings=tuple(_warnings(_header(text), {figure.op for figure in figures.values()})),
    )


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows by column, cells stripped, without blank lines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [cell.strip() for cell in next(reader, [])]
        _check_columns(path, columns)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                message = f"{path} line {reader.line_num} has {len(cells)} cells and the header {len(columns)}"
                raise RunFormatError(message, "is the file cut off? cells that hold commas need quotes")
            yield reader.line_num, dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    except csv.Error as error:
        raise RunFormatError(f"{path} line {reader.line_num} is not CSV: {error}", "is the file cut off?") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        found = ", ".join(filter(None, columns))[:200] or "none"
        hint = f"it has {found}; cells are separated by commas. for NVBench, give its JSON file (--json) instead"
        raise RunFormatError(f"{path} lacks the column {' and '.join(missing)}", hint)
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise RunFormatError(f"{path} has the column {', '.join(twice)} twice", "keep one of them")


def _figure_of_row(row: Mapping[str, str]) -> Figure:
    if not row["kernel"]:
        raise ValueError("kernel is empty")
    kernel, params = split_label(row["kernel"])
    time_us = _microseconds(row, "time_us")
    low_us, high_us = _microseconds(row, "time_lo_us"), _microseconds(row, "time_hi_us")
    if low_us > time_us or high_us < time_us:
        raise ValueError(f"the time {time_us:g} lies outside its interval, {low_us:g} to {high_us:g}")
    measured, op = not math.isnan(time_us), row.get("op") or DEFAULT_OP
    return Figure(
        op=op,
        kernel=kernel,
        label=row["kernel"],
        params=params,
        workload=read_axes({column: cell for column, cell in row.items() if cell}, op_named(op).workloads),
        role=role_by_name(kernel),
        timer=row.get("timer", ""),
        time_us=time_us,
        low_us=low_us,
        high_us=high_us,
        status=Status.OK if measured else Status.NOT_RUN,
        reason="" if measured else "the file gives no time",
    )


def _microseconds(row: Mapping[str, str], column: str) -> float:
    """Returns a positive number, or NaN if the cell is empty or the column is missing."""
    text = row.get(column, "")
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{column} is {text[:40]!r}, which is not a time in microseconds")
    return value


def _warnings(columns: list[str], ops: Collection[str]) -> Iterator[str]:
    known = {*REQUIRED, *OPTIONAL, *(name for op in ops for name in op_named(op).workloads.names)}
    ignored = [name for name in columns if name and name not in known]
    if ignored:
        yield f"columns that gdnbench does not know were ignored: {', '.join(ignored)}"
    for assumed in filter(None, (assumed_sizes(columns, op_named(op).workloads) for op in sorted(ops))):
        yield f"the file does not give the workload in full: {assumed} is assumed"


PUBLISHED_NAME = "figures.csv"
_CITED = ("published_in", "published_on", "note")
PUBLISHED_COLUMNS = ("op", "kernel", "timer", "time_us", "gpu", *_CITED)  # beside the axes of the op
_RESTORE = "correct it from what was published, or restore it"


def list_published(results: Path) -> list[str]:
    """The names of the published tables in a results folder and its evidence, sorted."""
    return sorted(_published_folders(results))


def _published_folders(results: Path) -> dict[str, Path]:
    """The published tables by name; one beside the runs stands for one of that name in the evidence."""
    places = (results / EVIDENCE, results)
    found = (path.parent for place in places for path in (place / PUBLISHED_FOLDER).glob(f"*/{PUBLISHED_NAME}"))
    return {folder.name: folder for folder in found}


def find_published(results: Path, name: str) -> Path:
    """The folder of a published table, `b200` or `published/b200`; UnknownNameError if there is none."""
    known = _published_folders(results)
    bare = name.removeprefix(f"{PUBLISHED_FOLDER}/").strip("/")
    if bare in known:
        return known[bare]
    near = get_close_matches(bare, known, n=3, cutoff=0.4) or sorted(known)
    hint = f"there are {', '.join(near)}" if near else "a table is a folder there with a figures.csv"
    raise UnknownNameError(f"no published table {bare} in {results / PUBLISHED_FOLDER}", hint)


def load_published(folder: Path) -> FigureSource:
    """Reads a published table; each column but `PUBLISHED_COLUMNS` and the axes is a param of the kernels.

    RunFormatError is raised if it is missing or damaged, has no figures, gives one twice, or is of several GPUs.
    """
    path = folder / PUBLISHED_NAME
    try:
        rows = read_table(path, PUBLISHED_COLUMNS)
    except RunFormatError as error:
        raise RunFormatError(error.message, _RESTORE) from error
    gpus = {row["gpu"] for row in rows}
    if len(gpus) != 1:
        found = ", ".join(sorted(gpus)) or "none"
        raise RunFormatError(f"{path} is of {len(gpus)} GPUs ({found}), and a table is of one", _RESTORE)
    figures = tuple(_read_published(path, line, row) for line, row in enumerate(rows, start=2))
    _check_once(path, figures)
    return FigureSource(
        name=f"{PUBLISHED_FOLDER}/{folder.name}", kind=SourceKind.PUBLISHED, gpu=gpus.pop(), figures=figures
    )


def _read_published(path: Path, line: int, row: dict[str, str]) -> Figure:
    try:
        return _published_figure(row)
    except (ValueError, ShapeError, UnknownNameError) as error:
        raise RunFormatError(f"{path} line {line}: {error}", _RESTORE) from error


def _published_figure(row: dict[str, str]) -> Figure:
    op = _filled(row, "op")
    declared = op_named(op)
    axes = declared.workloads
    fixed = {*PUBLISHED_COLUMNS, *axes.names}
    params = Params({name: parse_value(text) for name, text in row.items() if name not in fixed and text})
    kernel, timer, published_in = (_filled(row, name) for name in ("kernel", "timer", "published_in"))
    return Figure(
        op=op,
        kernel=kernel,
        label=join_label(kernel, params),
        params=params,
        workload=declared.checked(axes.from_cells(row)),
        timer=timer,
        time_us=_published_us(row["time_us"]),
        citation=_citation(published_in, row["published_on"], row["note"]),
    )


def _citation(published_in: str, published_on: str, note: str) -> str:
    """`FlashInfer pull request 2405, 2026-01-23 (state in fp32)`."""
    where = ", ".join(filter(None, (published_in, published_on)))
    return f"{where} ({note})" if note else where


def _filled(row: dict[str, str], name: str) -> str:
    if not row[name].strip():
        raise ValueError(f"{name} is empty")
    return row[name]


def _published_us(text: str) -> float:
    time_us = float(text)
    if not (math.isfinite(time_us) and time_us > 0):
        raise ValueError(f"time_us={text} is not a time")
    return time_us


def _check_once(path: Path, figures: tuple[Figure, ...]) -> None:
    """Refuses two figures for one kernel, workload and timer, since either could be meant."""
    counts = Counter(figure.key for figure in figures)
    for figure in figures:
        if counts[figure.key] > 1:
            raise RunFormatError(f"{path} gives {figure.label} at {figure.workload} twice", _RESTORE)
