"""Parses files and folders of flashinfer-bench; refuses invalid fields by name, and runs no code in them."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UsageError
from gdnbench.exchange.schema import Definition, Solution, Trace
from gdnbench.regular_file import read_regular_text

T = TypeVar("T")

_MEND = "flashinfer-bench 0.1.2 writes what gdnbench reads"
_LONGEST_PATH = 200
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\\]")


def parse_definition(text: str, where: str) -> Definition:
    """Parses a Definition from JSON, and its reference without running it; raises UsageError if it is invalid."""
    definition = _decode(text, Definition, where)
    for name in definition.tensors:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{where}: the tensor {name[:40]!r} cannot be an argument's name", _MEND)
    if both := definition.inputs.keys() & definition.outputs.keys():
        raise UsageError(f"{where}: {', '.join(sorted(both))} is an input and an output", _MEND)
    for name, axis in definition.axes.items():
        if axis.type == "const" and axis.value is None:
            raise UsageError(f"{where}: the axis {name[:40]!r} is constant and has no value", _MEND)
    for name, tensor in definition.tensors.items():
        if unknown := [each for each in tensor.shape or () if each not in definition.axes]:
            raise UsageError(f"{where}: {name} has the size {unknown[0][:40]!r}, which is no axis", _MEND)
    _check_reference(definition.reference, where)
    return definition


def _check_reference(code: str, where: str) -> None:
    """Parses the reference without running it."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: the reference is not Python: {error}", _MEND) from error
    if not any(isinstance(each, ast.FunctionDef) and each.name == "run" for each in body):
        raise UsageError(f"{where}: the reference has no function run", _MEND)


def parse_solution(text: str, where: str) -> Solution:
    """Parses a Solution from JSON; raises UsageError if it is invalid, or a path leads out of the Solution's folder."""
    solution = _decode(text, Solution, where)
    paths = [source.path for source in solution.sources]
    for path in paths:
        check_path(path, where)
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise UsageError(f"{where}: the source {twice[0]} is there twice", _MEND)
    if solution.spec.entry_file not in paths:
        raise UsageError(f"{where}: the entry point's file {solution.spec.entry_file[:80]!r} is no source", _MEND)
    return solution


def check_path(path: str, where: str) -> PurePosixPath:
    """Returns a relative path inside a folder; raises UsageError for any other."""
    pure = PurePosixPath(path)
    strange = _CONTROLS.search(path) or len(path) > _LONGEST_PATH or not path.strip()
    if strange or pure.is_absolute() or {"..", "__pycache__"} & set(pure.parts) or not pure.parts or str(pure) != path:
        raise UsageError(f"{where}: the path {path[:80]!r} is not one inside a folder", "paths are as in src/kernel.cu")
    return pure


def parse_traces(text: str, where: str) -> list[Trace]:
    """Parses the lines of a file of workloads or traces, without blank ones; raises UsageError, naming the line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    return [_decode(line, Trace, f"{where} line {number}") for number, line in lines]


def read_text(path: Path) -> str:
    """Reads a text file; raises UsageError if it cannot be read, or is not UTF-8."""
    try:
        return read_regular_text(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or error
        raise UsageError(f"{path} cannot be read: {reason}", _MEND) from error


def _decode(text: str, schema: type[T], where: str) -> T:
    try:
        return decode_json(text, schema)
    except SchemaError as error:
        raise UsageError(f"{where}: no {schema.__name__}: {error}", _MEND) from error


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
