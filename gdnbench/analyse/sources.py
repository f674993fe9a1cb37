"""Finds the sources that a user names: runs, and figures that others published.

A published table is `results/published/<name>/figures.csv`, each of its figures with a citation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypedDict

from gdnbench.analyse.figure import Figure, FigureSource, SourceKind, join_label
from gdnbench.analyse.runs import load_run
from gdnbench.catalog.catalog import op_named
from gdnbench.codec import convert_cells
from gdnbench.errors import RunFormatError, ShapeError, UnknownNameError, UsageError
from gdnbench.model.declaration import Params, parse_value
from gdnbench.model.status import Role
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.origin import EVIDENCE, is_file, is_folder
from gdnbench.store.files import read_table
from gdnbench.store.find import PUBLISHED_FOLDER, Named, compares, name_runs, readable
from gdnbench.store.info import read_info, refuse_step
from gdnbench.store.schema import Microseconds


@dataclass(frozen=True)
class _Found:
    """Where a source may be, newest first if a name means several runs, and the function that reads it."""

    paths: tuple[Path, ...]
    load: Callable[[Path], FigureSource]


def load_sources(texts: Sequence[str], results: Path) -> list[FigureSource]:
    """Reads every named source; two copies of a run are named as the user wrote them."""
    chosen = _choose([_locate(text, results) for text in texts])
    paths = [path.resolve() for path, _ in chosen]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        names = " and ".join(text for text, path in zip(texts, paths, strict=True) if path == twice)
        raise UsageError(f"{names} are the same: {twice}", "give two different sources, or one and --cols label")
    sources = [source for _, source in chosen]
    counts = Counter(source.name for source in sources)
    return _with_all_axes(
        [
            replace(source, name=text.rstrip("/")) if counts[source.name] > 1 else source
            for source, text in zip(sources, texts, strict=True)
        ]
    )


def _with_all_axes(sources: Sequence[FigureSource]) -> list[FigureSource]:
    """The sources with each op's figures at workloads of one set of axes: the largest, which has the newest axes."""
    axes: dict[str, WorkloadSpec] = {}
    for figure in (figure for source in sources for figure in source.figures):
        spec = figure.workload.spec
        axes[figure.op] = max(axes.get(figure.op, spec), spec, key=lambda each: len(each.names))
    found = list(sources)
    for op, spec in axes.items():
        found = [source.with_axes_of(op, spec) for source in found]
    return found


def _choose(found: Sequence[_Found]) -> list[tuple[Path, FigureSource]]:
    """The path and source for each name; of many runs, the newest that timed a case which the others timed, too."""
    first, *others = found
    for one in _loaded(first):
        partners = [next((each for each in _loaded(other) if _share_a_case(one, each)), None) for other in others]
        if all(partners):
            return [one, *filter(None, partners)]
    return [next(_loaded(each), None) or (each.paths[0], each.load(each.paths[0])) for each in found]


def _loaded(found: _Found) -> Iterator[tuple[Path, FigureSource]]:
    if len(found.paths) == 1:
        return iter([(found.paths[0], found.load(found.paths[0]))])
    serving = (path for path, does in readable(found.paths, lambda path: (path, compares(path))) if does)
    return readable(serving, lambda path: (path, found.load(path)))


def _share_a_case(one: tuple[Path, FigureSource], other: tuple[Path, FigureSource]) -> bool:
    timed = [
        {(figure.op, figure.label, figure.workload) for figure in source.figures if figure.has_time}
        for _, source in (one, other)
    ]
    return one[0].resolve() != other[0].resolve() and not timed[0].isdisjoint(timed[1])


def _locate(text: str, results: Path) -> _Found:
    if text.startswith(f"{PUBLISHED_FOLDER}/"):
        return _Found((find_published(results, text),), load_published)
    path = Path(text)
    if is_folder(path) and path.absolute().parent.name == PUBLISHED_FOLDER:
        return _Found((path,), load_published)
    named = _name_runs(text, results)
    return _Found(named.runs[:1] if named.is_one else named.runs, _load_whole)


def _name_runs(text: str, results: Path) -> Named:
    if not text:
        raise UsageError("a source needs a name", "as in gdnbench compare h200 published/b200")
    path = Path(text)
    if path.name == "run.json" and is_file(path):
        return Named((path.parent,), is_one=True)
    try:
        return name_runs(results, text)
    except UnknownNameError as error:
        if text in list_published(results):
            raise UnknownNameError(error.message, f"did you mean {PUBLISHED_FOLDER}/{text}?") from error
        if path.suffix or "/" in text:
            raise UnknownNameError(f"there is no file, folder or run {text}", error.hint) from error
        raise


def _load_whole(folder: Path) -> FigureSource:
    refuse_step(folder)
    info, source = read_info(folder), load_run(folder)
    expected = sum(case["role"] != Role.CONTROL for case in info.cases)
    if len(source.figures) != expected:
        cut_off = f"{folder} has {len(source.figures)} measurements of {expected} cases: measurements.csv is cut off"
        raise RunFormatError(cut_off, "the run is damaged; measure anew")
    if info.complete:
        return source
    return replace(source, warnings=(*source.warnings, "the run was stopped before its end"))


PUBLISHED_NAME = "figures.csv"
_CITED = ("published_in", "published_on", "note")
PUBLISHED_COLUMNS = ("op", "kernel", "timer", "time_us", "gpu", *_CITED)  # beside the axes of the op
_RESTORE = "correct it from what was published, or restore it"


def list_published(results: Path) -> dict[str, Path]:
    """The published tables by name, sorted; one beside the runs stands for one of that name in the evidence."""
    places = (results / EVIDENCE, results)
    found = (path.parent for place in places for path in (place / PUBLISHED_FOLDER).glob(f"*/{PUBLISHED_NAME}"))
    return dict(sorted({folder.name: folder for folder in found}.items()))


def find_published(results: Path, name: str) -> Path:
    """The folder of a published table, `b200` or `published/b200`; UnknownNameError if there is none."""
    known = list_published(results)
    bare = name.removeprefix(f"{PUBLISHED_FOLDER}/").strip("/")
    if bare in known:
        return known[bare]
    near = get_close_matches(bare, known, n=3, cutoff=0.4) or list(known)
    hint = f"there are {', '.join(near)}" if near else "a table is a folder there with a figures.csv"
    raise UnknownNameError(f"no published table {bare} in {results / PUBLISHED_FOLDER}", hint)


def load_published(folder: Path) -> FigureSource:
    """Reads a published table; each column but `PUBLISHED_COLUMNS` and the axes is a param of the kernels."""
    path = folder / PUBLISHED_NAME
    try:
        rows = read_table(path, PUBLISHED_COLUMNS)
    except RunFormatError as error:
        raise RunFormatError(error.message, _RESTORE) from error
    gpus = {row["gpu"] for row in rows}
    if len(gpus) != 1:
        found = ", ".join(sorted(gpus)) or "none"
        raise RunFormatError(f"{path} is of {len(gpus)} GPUs ({found}), and a table is of one", _RESTORE)
    figures = []
    for line, row in enumerate(rows, start=2):
        try:
            figures.append(_published_figure(row))
        except (ValueError, ShapeError, UnknownNameError) as error:
            raise RunFormatError(f"{path} line {line}: {error}", _RESTORE) from error
    for figure, count in Counter((figure.label, figure.workload, figure.timer) for figure in figures).items():
        if count > 1:
            raise RunFormatError(f"{path} gives {figure[0]} at {figure[1]} twice", _RESTORE)
    return FigureSource(
        name=f"{PUBLISHED_FOLDER}/{folder.name}", kind=SourceKind.PUBLISHED, gpu=gpus.pop(), figures=tuple(figures)
    )


def _published_figure(row: dict[str, str]) -> Figure:
    op = _filled(row, "op")
    declared = op_named(op)
    axes = declared.workloads
    fixed = {*PUBLISHED_COLUMNS, *axes.names}
    params = Params({name: parse_value(text) for name, text in row.items() if name not in fixed and text})
    kernel, timer, published_in = (_filled(row, name) for name in ("kernel", "timer", "published_in"))
    note = f" ({row['note']})" if row["note"] else ""
    return Figure(
        op=op,
        kernel=kernel,
        label=join_label(kernel, params),
        params=params,
        workload=declared.checked(axes.from_cells(row)),
        timer=timer,
        time_us=convert_cells(row, _Time)["time_us"],
        citation=", ".join(filter(None, (published_in, row["published_on"]))) + note,
    )


class _Time(TypedDict):
    time_us: Microseconds


def _filled(row: dict[str, str], name: str) -> str:
    if not row[name].strip():
        raise ValueError(f"{name} is empty")
    return row[name]
