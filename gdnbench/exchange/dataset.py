"""The folders of a data set: Definitions, Solutions, workloads, traces, and the tensors that workloads name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.parse import parse_definition, parse_solution, parse_traces, read_text
from gdnbench.exchange.schema import Definition, Solution, Trace

_FOLDERS = ("definitions", "solutions", "workloads", "traces")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


@dataclass
class FoundFiles:
    """The contents of files.

    Attributes:
        definitions: by name.
        workloads: lines without an evaluation, each with the folder that its paths are relative to.
        traces: lines with an evaluation.
    """

    definitions: dict[str, Definition] = field(default_factory=dict)
    solutions: list[Solution] = field(default_factory=list)
    workloads: list[tuple[Trace, Path]] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


def safe_name(name: str) -> str:
    """Returns a name from a file as the name of a file or folder; unusual characters become dashes."""
    return _UNSAFE.sub("-", name).lstrip(".-_+")[:80].rstrip(".-")


def definition_path(definition: Definition) -> Path:
    """Returns a Definition's path in a data set."""
    return Path("definitions", safe_name(definition.op_type), f"{safe_name(definition.name)}.json")


def solution_path(definition: Definition, solution: Solution) -> Path:
    """Returns a Solution's path in a data set."""
    folder = Path("solutions", safe_name(definition.op_type), safe_name(definition.name))
    return folder / f"{safe_name(solution.name)}.json"


def lines_path(kind: str, definition: Definition) -> Path:
    """Returns the path of a Definition's workloads or traces in a data set."""
    return Path(kind, safe_name(definition.op_type), f"{safe_name(definition.name)}.jsonl")


def read_files(paths: list[Path]) -> FoundFiles:
    """Reads files, and those in folders of data sets; raises UsageError if one is invalid, or contradicts another."""
    found = FoundFiles()
    for path in paths:
        if path.is_dir():
            inside = list(_files_of(path))
            if not inside:
                raise UsageError(f"{path} is no data set", f"it has none of the folders {', '.join(_FOLDERS)}")
            for each in inside:
                _read(found, each, path)
        else:
            _read(found, path, _root_of(path))
    return found


def _files_of(root: Path) -> Iterator[Path]:
    for name in _FOLDERS:
        yield from sorted(path for path in (root / name).rglob("*.json*") if path.is_file())


def _root_of(path: Path) -> Path:
    """Returns the data set of a file: the parent of its folder `workloads` or the like; else its own folder."""
    return next((each.parent for each in path.absolute().parents if each.name in _FOLDERS), path.absolute().parent)


def _read(found: FoundFiles, path: Path, root: Path) -> None:
    text, where = read_text(path), str(path)
    if path.suffix == ".jsonl":
        for trace in parse_traces(text, where):
            if trace.evaluation is None:
                found.workloads.append((trace, root))
            else:
                found.traces.append(trace)
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", "workloads and traces are lines, in a file .jsonl") from error
    if isinstance(document, dict) and "spec" in document:
        found.solutions.append(parse_solution(text, where))
        return
    definition = parse_definition(text, where)
    if found.definitions.setdefault(definition.name, definition) != definition:
        raise UsageError(f"{path}: another Definition {definition.name[:80]} was read before", "name one of them")
