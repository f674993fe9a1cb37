"""Figures that others published, from `results/published/<name>/figures.csv`: cited, and never mixed with ours."""

from __future__ import annotations

import math
from difflib import get_close_matches
from pathlib import Path

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.compare.naming import join_label, parse_value
from gdnbench.errors import RunFormatError, ShapeError, UnknownNameError
from gdnbench.model import Params, Shape
from gdnbench.store.table import read_table

FOLDER = "published"
NAME = "figures.csv"
_AXES = ("B", "HQ", "HV", "K", "V")
_CITED = ("published_in", "published_on", "note")
COLUMNS = ("op", "kernel", *_AXES, "timer", "time_us", "gpu", *_CITED)
_HINT = "put it right from what was published, or restore it: git checkout results/published"


def list_published(results: Path) -> list[str]:
    """The names of the published tables in a results folder, sorted; none where it holds none."""
    return sorted(path.parent.name for path in (results / FOLDER).glob(f"*/{NAME}"))


def find_published(results: Path, name: str) -> Path:
    """The folder of a published table.

    Args:
        results: where runs are; published tables are in its folder `published`.
        name: `b200` or `published/b200`.

    Raises:
        UnknownNameError: if there is none of that name.
    """
    known = list_published(results)
    bare = name.removeprefix(f"{FOLDER}/").strip("/")
    if bare in known:
        return results / FOLDER / bare
    near = get_close_matches(bare, known, n=3, cutoff=0.4) or known
    hint = f"there are {', '.join(near)}" if near else "a table is a folder there with a figures.csv"
    raise UnknownNameError(f"no published table {bare} in {results / FOLDER}", hint)


def load_published(folder: Path) -> Source:
    """Reads a published table; every column that is not one of `COLUMNS` is a param of the kernels.

    Raises:
        RunFormatError: if it is missing or damaged, has no figures, says something twice, or is of several GPUs.
    """
    path = folder / NAME
    try:
        rows = read_table(path, COLUMNS)
    except RunFormatError as error:
        raise RunFormatError(error.message, _HINT) from error
    gpus = {row["gpu"] for row in rows}
    if len(gpus) != 1:
        found = ", ".join(sorted(gpus)) or "none"
        raise RunFormatError(f"{path} is of {len(gpus)} GPUs ({found}), and a table is of one", _HINT)
    figures = tuple(_read(path, line, row) for line, row in enumerate(rows, start=2))
    _check_once(path, figures)
    return Source(name=f"{FOLDER}/{folder.name}", kind=Kind.PUBLISHED, gpu=gpus.pop(), figures=figures)


def _read(path: Path, line: int, row: dict[str, str]) -> Figure:
    try:
        return _figure(row)
    except (ValueError, ShapeError) as error:
        raise RunFormatError(f"{path} line {line}: {error}", _HINT) from error


def _figure(row: dict[str, str]) -> Figure:
    params = Params({name: parse_value(text) for name, text in row.items() if name not in COLUMNS and text})
    kernel, timer, published_in = (_filled(row, name) for name in ("kernel", "timer", "published_in"))
    return Figure(
        op=_filled(row, "op"),
        kernel=kernel,
        label=join_label(kernel, params),
        params=params,
        shape=Shape(**{axis: int(row[axis]) for axis in _AXES}),
        timer=timer,
        time_us=_microseconds(row["time_us"]),
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


def _microseconds(text: str) -> float:
    time_us = float(text)
    if not (math.isfinite(time_us) and time_us > 0):
        raise ValueError(f"time_us={text} is no time")
    return time_us


def _check_once(path: Path, figures: tuple[Figure, ...]) -> None:
    """A kernel has one figure at a shape and timer; of two, nobody could say which to compare with."""
    seen = set()
    for figure in figures:
        key = (figure.label, figure.shape, figure.timer)
        if key in seen:
            raise RunFormatError(f"{path} gives {figure.label} at {figure.shape} twice", _HINT)
        seen.add(key)
