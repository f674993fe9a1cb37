"""The files of flashinfer-bench: a Definition, a Solution, and lines of workloads; runs no code in them.

Fields are those of flashinfer-bench 0.1.2. As in its own files, unset fields are left out; unknown ones are ignored.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UsageError
from gdnbench.model.declaration import Dtype

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
Size = Annotated[int, msgspec.Meta(ge=0)]
Language = Literal["python", "triton", "cpp", "cuda", "tilelang"]
ExtensionBinding = Literal["tvm-ffi", "torch"]

DTYPE_NAMES: dict[Dtype, str] = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp8e4m3": "float8_e4m3fn",
    "int8": "int8",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
}
"""The format's names of element types; it has none for the others."""


class _Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a file."""


class DefinedAxis(_Document, frozen=True):
    """An axis of a Definition: `const` with a value, or `var`."""

    type: Literal["const", "var"]
    value: Size | None = None
    description: str | None = None


class DefinedTensor(_Document, frozen=True):
    """A tensor of a Definition with its sizes by names of axes; a scalar if the shape is None."""

    shape: list[NonEmpty] | None
    dtype: NonEmpty
    description: str | None = None


class Definition(_Document, frozen=True):
    """A computation: axes, tensors in the order of the arguments, and a torch reference with a function `run`."""

    name: NonEmpty
    op_type: NonEmpty
    axes: dict[NonEmpty, DefinedAxis]
    inputs: dict[NonEmpty, DefinedTensor]
    outputs: dict[NonEmpty, DefinedTensor]
    reference: NonEmpty
    tags: list[NonEmpty] | None = None
    description: str | None = None
    constraints: list[NonEmpty] | None = None

    @property
    def tensors(self) -> dict[str, DefinedTensor]:
        """Inputs, then outputs."""
        return {**self.inputs, **self.outputs}


class SourceFile(_Document, frozen=True):
    """A file of a Solution, by its path in the Solution's folder."""

    path: NonEmpty
    content: NonEmpty


class BuildSpec(_Document, frozen=True):
    """How a Solution is built and called.

    `target_hardware` is `cuda`, `cpu`, or a GPU's name; `entry_point` is as `solution.py::run`. In
    `destination_passing_style`, the default, outputs are its last arguments, else it returns them. `binding` is from
    C++ to Python, `tvm-ffi` by default.
    """

    language: Language
    target_hardware: Annotated[list[str], msgspec.Meta(min_length=1)]
    entry_point: Annotated[str, msgspec.Meta(pattern=r"^(?:(?!::).)+::(?:(?!::).)+\Z")]
    dependencies: list[NonEmpty] | None = None
    destination_passing_style: bool | None = None
    binding: ExtensionBinding | None = None

    @property
    def entry_file(self) -> str:
        """The path in `entry_point`."""
        return self.entry_point.partition("::")[0]

    @property
    def entry_name(self) -> str:
        """The function in `entry_point`."""
        return self.entry_point.partition("::")[2]

    @property
    def is_python(self) -> bool:
        """Whether its sources are imported, not built; TileLang compiles at the first call, as CuTe DSL does."""
        return self.language in {"python", "triton", "tilelang"}

    @property
    def passes_destinations(self) -> bool:
        """`destination_passing_style`, or its default."""
        return self.destination_passing_style is not False


class Solution(_Document, frozen=True):
    """An implementation of a Definition: sources, and how they are built and called."""

    name: NonEmpty
    definition: NonEmpty
    author: NonEmpty
    spec: BuildSpec
    sources: Annotated[list[SourceFile], msgspec.Meta(min_length=1)]
    description: str | None = None


class TracedInput(_Document, frozen=True):
    """An input of a workload: random, a scalar's value, or from a file of safetensors."""

    type: Literal["random", "scalar", "safetensors"]
    value: float | int | bool | None = None
    path: str | None = None
    tensor_key: str | None = None


class TracedWorkload(_Document, frozen=True):
    """The values of a Definition's variable axes, and its inputs."""

    axes: dict[str, Size]
    inputs: dict[str, TracedInput]
    uuid: NonEmpty


class Trace(_Document, frozen=True):
    """A line of workloads."""

    definition: NonEmpty
    workload: TracedWorkload


def as_file(value: Definition | Solution) -> bytes:
    """Returns a Definition or Solution as the content of its file."""
    return encoded(msgspec.to_builtins(value))


def encoded(document: Any) -> bytes:
    """Returns a document as the content of a file in JSON."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def as_lines(traces: Sequence[Trace]) -> bytes:
    """Returns traces as the content of their file, a line each."""
    lines = (json.dumps(msgspec.to_builtins(each), ensure_ascii=False, allow_nan=False) for each in traces)
    return "".join(f"{line}\n" for line in lines).encode()


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
            raise UsageError(f"{where}: {name} has the size {unknown[0][:40]!r}, which is not an axis", _MEND)
    try:
        body = ast.parse(definition.reference).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: the reference is not Python: {error}", _MEND) from error
    if not any(isinstance(each, ast.FunctionDef) and each.name == "run" for each in body):
        raise UsageError(f"{where}: the reference has no function run", _MEND)
    return definition


def parse_solution(text: str, where: str) -> Solution:
    """Parses a Solution from JSON; raises UsageError if it is invalid, or a path leads out of the Solution's folder."""
    solution = _decode(text, Solution, where)
    paths = [str(check_path(source.path, where)) for source in solution.sources]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise UsageError(f"{where}: the source {twice[0]} is there twice", _MEND)
    if solution.spec.entry_file not in paths:
        raise UsageError(f"{where}: the entry point's file {solution.spec.entry_file[:80]!r} is not a source", _MEND)
    return solution


def check_path(path: str, where: str) -> PurePosixPath:
    """Returns a relative path inside a folder; raises UsageError for any other."""
    pure = PurePosixPath(path)
    strange = _CONTROLS.search(path) or len(path) > _LONGEST_PATH or not path.strip()
    if strange or pure.is_absolute() or {"..", "__pycache__"} & set(pure.parts) or not pure.parts or str(pure) != path:
        raise UsageError(f"{where}: the path {path[:80]!r} is not one inside a folder", "paths are as in src/kernel.cu")
    return pure


def read_text(path: Path) -> str:
    """Reads a text file; raises UsageError if it cannot be read, or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or error
        raise UsageError(f"{path} cannot be read: {reason}", _MEND) from error


def _decode(text: str, schema: type[T], where: str) -> T:
    try:
        return decode_json(text, schema)
    except SchemaError as error:
        raise UsageError(f"{where}: no {schema.__name__}: {error}", _MEND) from error


_FOLDERS = ("definitions", "solutions")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


@dataclass
class DataSetFiles:
    """The contents of files, Definitions by name."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    solutions: list[Solution] = field(default_factory=list)


def safe_name(name: str) -> str:
    """Returns a name from a file as the name of a file or folder; unusual characters become dashes."""
    return _UNSAFE.sub("-", name).lstrip(".-_+")[:80].rstrip(".-")


def read_files(paths: list[Path]) -> DataSetFiles:
    """Reads files, and those in folders of data sets; raises UsageError if one is invalid, or contradicts another."""
    files = DataSetFiles()
    for path in paths:
        inside = [path]
        if path.is_dir():
            inside = [each for name in _FOLDERS for each in sorted((path / name).rglob("*.json")) if each.is_file()]
        if not inside:
            raise UsageError(f"{path} is not a data set", f"it has none of the folders {', '.join(_FOLDERS)}")
        for each in inside:
            _read(files, each)
    return files


def _read(files: DataSetFiles, path: Path) -> None:
    text, where = read_text(path), str(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", "name a Solution and its Definition") from error
    if isinstance(document, dict) and "spec" in document:
        files.solutions.append(parse_solution(text, where))
        return
    definition = parse_definition(text, where)
    if files.definitions.setdefault(definition.name, definition) != definition:
        raise UsageError(f"{path}: another Definition {definition.name[:80]} was read before", "name one of them")
