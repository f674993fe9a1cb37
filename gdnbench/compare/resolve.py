"""What a user names, as sources: runs, published figures, commits, files of other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.compare.commit import PREFIX, run_of_commit
from gdnbench.compare.figure import Source
from gdnbench.compare.foreign import load_foreign
from gdnbench.compare.measured import load_run
from gdnbench.compare.published import FOLDER, find_published, list_published, load_published
from gdnbench.errors import RunFormatError, UnknownNameError, UsageError
from gdnbench.model import Role
from gdnbench.store import find_run, read_info


@dataclass(frozen=True)
class _Found:
    """Where a source is, and how it is read."""

    path: Path
    load: Callable[[Path], Source]


def load_sources(texts: Sequence[str], results: Path) -> list[Source]:
    """Every source that was named, each under a name of its own.

    A copy of a run bears its id; then what the user wrote tells them apart.

    Raises:
        UsageError: if two are the same, or as `load_source`.
    """
    found = [_locate(text, results) for text in texts]
    for index, one in enumerate(found):
        for earlier in range(index):
            if found[earlier].path.resolve() == one.path.resolve():
                same = f"{texts[earlier]} and {texts[index]} are the same: {one.path}"
                raise UsageError(same, "give two different sources, or one and --cols label")
    sources = [one.load(one.path) for one in found]
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
    found = _locate(text, results)
    return found.load(found.path)


def _locate(text: str, results: Path) -> _Found:
    if text.startswith(PREFIX):
        return _Found(run_of_commit(text.removeprefix(PREFIX), results), _load_of_commit)
    if text.startswith(f"{FOLDER}/"):
        return _Found(find_published(results, text), load_published)
    path = Path(text)
    if path.is_file() and path.name != "run.json":
        return _Found(path, load_foreign)
    if path.is_dir() and path.absolute().parent.name == FOLDER:
        return _Found(path, load_published)
    return _Found(_find_run(text, results), _load_whole)


def _find_run(text: str, results: Path) -> Path:
    """As `find_run`, but an empty name stands for nothing here, and published figures of the name are pointed to."""
    if not text:
        raise UsageError("a source needs a name", "as in gdnbench compare h200 published/b200")
    path = Path(text)
    if path.name == "run.json" and path.is_file():
        return path.parent
    try:
        return find_run(results, text)
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
    info = read_info(folder)
    try:
        source = load_run(folder)
        expected = sum(case["role"] != Role.CONTROL for case in info.cases)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunFormatError(f"{folder} cannot be read: {error}", "the run is damaged; measure anew") from error
    if len(source.figures) != expected:
        lost = f"{folder} has {len(source.figures)} measurements of {expected} cases: measurements.csv is cut off"
        raise RunFormatError(lost, "the run is damaged; measure anew")
    if info.complete:
        return source
    return replace(source, warnings=(*source.warnings, "the run was stopped before its end"))
