"""What a user names, as sources: runs, published figures, commits, files of other tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.compare.commit import PREFIX, runs_of_commit
from gdnbench.compare.figure import Source
from gdnbench.compare.foreign import load_foreign
from gdnbench.compare.measured import load_run
from gdnbench.compare.published import FOLDER, find_published, list_published, load_published
from gdnbench.errors import RunFormatError, UnknownNameError, UsageError
from gdnbench.model import Role, Shape
from gdnbench.places import is_file, is_folder
from gdnbench.store import Named, compares, name_runs, read_info, readable


@dataclass(frozen=True)
class _Found:
    """Where a source may be, the newest place first, and how it is read."""

    paths: tuple[Path, ...]
    load: Callable[[Path], Source]


def load_sources(texts: Sequence[str], results: Path) -> list[Source]:
    """Every source that was named, each under a name of its own.

    A copy of a run bears its id; then what the user wrote tells them apart.

    Raises:
        UsageError: if two are the same, or as `load_source`.
    """
    chosen = _choose([_locate(text, results) for text in texts])
    for index, (path, _) in enumerate(chosen):
        for earlier in range(index):
            if chosen[earlier][0].resolve() == path.resolve():
                same = f"{texts[earlier]} and {texts[index]} are the same: {path}"
                raise UsageError(same, "give two different sources, or one and --cols label")
    sources = [source for _, source in chosen]
    counts = Counter(source.name for source in sources)
    return [
        replace(source, name=text.rstrip("/")) if counts[source.name] > 1 else source
        for source, text in zip(sources, texts, strict=True)
    ]


def load_source(text: str, results: Path) -> Source:
    """One source.

    Args:
        text: a run's id, its start, label or folder, a GPU's name for its latest run, `published/<name>`, `git:REV`,
            or a file of another tool.
        results: where runs are.

    Raises:
        UnknownNameError: if there is no such source.
        RunFormatError: if it is there and cannot be read.
    """
    [(_, source)] = _choose([_locate(text, results)])
    return source


def _choose(found: Sequence[_Found]) -> list[tuple[Path, Source]]:
    """Of each name that means many runs, the newest that timed something which the others timed, too."""
    first, *others = found
    for one in _loaded(first):
        partners = [next((each for each in _loaded(other) if _are_partners(one, each)), None) for other in others]
        if all(partners):
            return [one, *filter(None, partners)]
    return [next(_loaded(each), None) or (each.paths[0], each.load(each.paths[0])) for each in found]


def _loaded(found: _Found) -> Iterator[tuple[Path, Source]]:
    if len(found.paths) == 1:
        return iter([(found.paths[0], found.load(found.paths[0]))])
    serving = (path for path, does in readable(found.paths, lambda path: (path, compares(path))) if does)
    return readable(serving, lambda path: (path, found.load(path)))


def _are_partners(one: tuple[Path, Source], other: tuple[Path, Source]) -> bool:
    """Whether both, which are not the same, have a time of a kernel at a shape."""
    return one[0].resolve() != other[0].resolve() and not _timed(one[1]).isdisjoint(_timed(other[1]))


def _timed(source: Source) -> set[tuple[str, str, Shape]]:
    return {(each.op, each.label, each.shape) for each in source.figures if math.isfinite(each.time_us)}


def _locate(text: str, results: Path) -> _Found:
    if text.startswith(PREFIX):
        return _Found(runs_of_commit(text.removeprefix(PREFIX), results), _load_of_commit)
    if text.startswith(f"{FOLDER}/"):
        return _Found((find_published(results, text),), load_published)
    path = Path(text)
    if is_file(path) and path.name != "run.json":
        return _Found((path,), load_foreign)
    if is_folder(path) and path.absolute().parent.name == FOLDER:
        return _Found((path,), load_published)
    named = _name_runs(text, results)
    return _Found(named.runs[:1] if named.is_one else named.runs, _load_whole)


def _name_runs(text: str, results: Path) -> Named:
    """As `name_runs`, but an empty name stands for nothing here, and published figures of the name are pointed to."""
    if not text:
        raise UsageError("a source needs a name", "as in gdnbench compare h200 published/b200")
    path = Path(text)
    if path.name == "run.json" and is_file(path):
        return Named((path.parent,), is_one=True)
    try:
        return name_runs(results, text)
    except UnknownNameError as error:
        if text in list_published(results):
            raise UnknownNameError(error.message, f"did you mean {FOLDER}/{text}?") from error
        if path.suffix or "/" in text:
            raise UnknownNameError(f"there is no file, folder or run {text}", error.hint) from error
        raise


def _load_of_commit(folder: Path) -> Source:
    """A run that stands for a commit, with a warning where it was measured with more than that."""
    source, git = _load_whole(folder), read_info(folder).git
    if not git.get("dirty"):
        return source
    dirty = f"measured in a checkout with changes beyond commit {str(git['commit'])[:8]}"
    return replace(source, warnings=(*source.warnings, dirty))


def _load_whole(folder: Path) -> Source:
    """A run with every case that it says it has."""
    info, source = read_info(folder), load_run(folder)
    expected = sum(case["role"] != Role.CONTROL for case in info.cases)
    if len(source.figures) != expected:
        lost = f"{folder} has {len(source.figures)} measurements of {expected} cases: measurements.csv is cut off"
        raise RunFormatError(lost, "the run is damaged; measure anew")
    if info.complete:
        return source
    return replace(source, warnings=(*source.warnings, "the run was stopped before its end"))
