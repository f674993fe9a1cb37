"""The files of flashinfer-bench: a Definition, a Solution, and lines of workloads and traces; runs no code in them.

Fields are those of flashinfer-bench 0.1.2. As in its own files, unset fields are left out; unknown ones are ignored.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UsageError
from gdnbench.model.declaration import Dtype
from gdnbench.regular_file import read_regular_text

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


@dataclass(frozen=True, kw_only=True)
class DefinedAxis:
    """An axis of a Definition: `const` with a value, or `var`."""

    type: Literal["const", "var"]
    value: Size | None = None
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class DefinedTensor:
    """A tensor of a Definition with its sizes by names of axes; a scalar if the shape is None."""

    shape: list[NonEmpty] | None
    dtype: NonEmpty
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Definition:
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

    @property
    def variable_axes(self) -> list[str]:
        """The axes without a constant value."""
        return [name for name, axis in self.axes.items() if axis.value is None]


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file of a Solution, by its path in the Solution's folder."""

    path: NonEmpty
    content: NonEmpty


@dataclass(frozen=True, kw_only=True)
class BuildSpec:
    """How a Solution is built and called.

    Attributes:
        target_hardware: `cuda`, `cpu`, or a GPU's name.
        entry_point: `solution.py::run`.
        dependencies: packages or libraries that it needs.
        destination_passing_style: whether outputs are its last arguments, the default; else it returns them.
        binding: from C++ to Python, `tvm-ffi` by default.
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
    def passes_destinations(self) -> bool:
        """`destination_passing_style`, or its default."""
        return self.destination_passing_style is not False


@dataclass(frozen=True, kw_only=True)
class Solution:
    """An implementation of a Definition: sources, and how they are built and called."""

    name: NonEmpty
    definition: NonEmpty
    author: NonEmpty
    spec: BuildSpec
    sources: Annotated[list[SourceFile], msgspec.Meta(min_length=1)]
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class TracedInput:
    """An input of a workload: random, a scalar's value, or from a file of safetensors."""

    type: Literal["random", "scalar", "safetensors"]
    value: float | int | bool | None = None
    path: str | None = None
    tensor_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class TracedWorkload:
    """The values of a Definition's variable axes, and its inputs."""

    axes: dict[str, Size]
    inputs: dict[str, TracedInput]
    uuid: NonEmpty


@dataclass(frozen=True, kw_only=True)
class TracedPerformance:
    """Latencies in milliseconds; 0 if not measured."""

    latency_ms: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    reference_latency_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    speedup_factor: Annotated[float, msgspec.Meta(ge=0)] | None = None


@dataclass(frozen=True, kw_only=True)
class TracedEnvironment:
    """The machine that evaluated a Solution."""

    hardware: NonEmpty
    libs: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class TracedCorrectness:
    """Errors against the reference, which may be the text `NaN`, and whatever else the author recorded."""

    max_relative_error: float | str | None = None
    max_absolute_error: float | str | None = None
    extra: dict[str, Any] | None = None


TraceStatus = Literal[
    "PASSED",
    "INCORRECT_SHAPE",
    "INCORRECT_NUMERICAL",
    "INCORRECT_DTYPE",
    "RUNTIME_ERROR",
    "COMPILE_ERROR",
    "TIMEOUT",
]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of a Solution at a workload.

    Attributes:
        status: `PASSED` has correctness and performance, `INCORRECT_NUMERICAL` correctness only, the others neither.
        timestamp: ISO 8601.
        log: the output, or the reason of a failure.
    """

    status: TraceStatus
    environment: TracedEnvironment
    timestamp: NonEmpty
    log: str | None = None
    correctness: TracedCorrectness | None = None
    performance: TracedPerformance | None = None


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A workload of a Definition, and a Solution's evaluation there; without these two it is a workload alone."""

    definition: NonEmpty
    workload: TracedWorkload
    solution: str | None = None
    evaluation: Evaluation | None = None


def document_of(value: Any) -> Any:
    """Returns a Definition, Solution or Trace as JSON; None fields are left out, except a scalar's shape."""
    if is_dataclass(value) and not isinstance(value, type):
        items = ((each.name, getattr(value, each.name)) for each in fields(value))
        keeps_shape = isinstance(value, DefinedTensor)
        return {n: document_of(item) for n, item in items if item is not None or (n == "shape" and keeps_shape)}
    if isinstance(value, dict):
        return {key: document_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [document_of(item) for item in value]
    return value


def as_file(value: Any) -> str:
    """Returns a Definition or Solution as the text of its file."""
    return json.dumps(document_of(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_lines(traces: list[Trace]) -> str:
    """Returns traces as the text of their file, a line each."""
    return "".join(json.dumps(document_of(each), ensure_ascii=False, allow_nan=False) + "\n" for each in traces)


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
class DataSetFiles:
    """The contents of files, Definitions by name.

    `workloads` are lines without an evaluation, each with the folder that its paths are relative to; `traces` lines
    with one.
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


def read_files(paths: list[Path]) -> DataSetFiles:
    """Reads files, and those in folders of data sets; raises UsageError if one is invalid, or contradicts another."""
    files = DataSetFiles()
    for path in paths:
        if not path.is_dir():
            # Its data set is the parent of its folder `workloads` or the like; else its own folder.
            folders = path.absolute().parents
            _read(files, path, next((each.parent for each in folders if each.name in _FOLDERS), folders[0]))
            continue
        inside = [each for name in _FOLDERS for each in sorted((path / name).rglob("*.json*")) if each.is_file()]
        if not inside:
            raise UsageError(f"{path} is not a data set", f"it has none of the folders {', '.join(_FOLDERS)}")
        for each in inside:
            _read(files, each, path)
    return files


def _read(files: DataSetFiles, path: Path, root: Path) -> None:
    text, where = read_text(path), str(path)
    if path.suffix == ".jsonl":
        for trace in parse_traces(text, where):
            if trace.evaluation is None:
                files.workloads.append((trace, root))
            else:
                files.traces.append(trace)
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", "workloads and traces are lines, in a file .jsonl") from error
    if isinstance(document, dict) and "spec" in document:
        files.solutions.append(parse_solution(text, where))
        return
    definition = parse_definition(text, where)
    if files.definitions.setdefault(definition.name, definition) != definition:
        raise UsageError(f"{path}: another Definition {definition.name[:80]} was read before", "name one of them")
