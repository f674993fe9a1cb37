"""The files of flashinfer-bench: a Definition, a Solution, and lines of workloads and traces.

The field names and their meaning are those of flashinfer-bench 0.1.2. Its own files leave unset fields out, and so do
these; fields that are not known here are passed over.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UsageError
from gdnbench.model.tensor import Dtype

T = TypeVar("T")

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
"""What the format calls each element type; it has none for the others."""

_MEND = "flashinfer-bench 0.1.2 writes what gdnbench reads"
_LONGEST_PATH = 200
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, kw_only=True)
class DefinedAxis:
    """An axis of a Definition: `const` with a value, or `var`."""

    type: Literal["const", "var"]
    value: Size | None = None
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class DefinedTensor:
    """A tensor of a Definition, its sizes by the names of axes; a scalar where the shape is None."""

    shape: list[NonEmpty] | None
    dtype: NonEmpty
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What is computed: axes, tensors in the order of the arguments, and a reference in torch with a function `run`."""

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


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file of a Solution, by its path in the Solution's folder."""

    path: NonEmpty
    content: NonEmpty


@dataclass(frozen=True, kw_only=True)
class BuildSpec:
    """How a Solution is built and called.

    Attributes:
        language: of the file that has the entry point.
        target_hardware: `cuda`, `cpu`, or a GPU's name.
        entry_point: `solution.py::run`.
        dependencies: packages or libraries that it needs.
        destination_passing_style: whether outputs are its last arguments; by default they are. Else it returns them.
        binding: how C++ reaches Python, `tvm-ffi` by default.
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
    """How an input of a workload comes about: at random, as a scalar's value, or from a file of safetensors."""

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
    """Latencies in milliseconds; 0 stands for one that was not measured."""

    latency_ms: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    reference_latency_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    speedup_factor: Annotated[float, msgspec.Meta(ge=0)] | None = None


@dataclass(frozen=True, kw_only=True)
class TracedEnvironment:
    """Where a Solution was evaluated."""

    hardware: NonEmpty
    libs: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class TracedCorrectness:
    """Errors against the reference, and whatever else its author wrote down; the text `NaN` is one, too."""

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
    """What became of a Solution at a workload.

    Attributes:
        status: `PASSED` comes with correctness and performance, `INCORRECT_NUMERICAL` with correctness alone, the
            others with neither.
        environment: where it was.
        timestamp: ISO 8601.
        log: what was printed, or why it failed.
        correctness: errors.
        performance: latencies.
    """

    status: TraceStatus
    environment: TracedEnvironment
    timestamp: NonEmpty
    log: str | None = None
    correctness: TracedCorrectness | None = None
    performance: TracedPerformance | None = None


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A workload of a Definition, and how a Solution fared there; without these two it is a workload alone."""

    definition: NonEmpty
    workload: TracedWorkload
    solution: str | None = None
    evaluation: Evaluation | None = None


def document_of(value: Any) -> Any:
    """A Definition, Solution or Trace as JSON has it: a field that is None is left out, but for a scalar's shape."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {each.name: getattr(value, each.name) for each in fields(value)}
        return {
            name: document_of(item)
            for name, item in kept.items()
            if item is not None or (name == "shape" and isinstance(value, DefinedTensor))
        }
    if isinstance(value, dict):
        return {key: document_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [document_of(item) for item in value]
    return value


def as_file(value: Any) -> str:
    """A Definition or Solution as the text of its file."""
    return json.dumps(document_of(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_lines(traces: list[Trace]) -> str:
    """Traces as the text of their file, a line each."""
    return "".join(json.dumps(document_of(each), ensure_ascii=False, allow_nan=False) + "\n" for each in traces)


def parse_definition(text: str, where: str) -> Definition:
    """A Definition, checked.

    Args:
        text: JSON.
        where: the file, for the message.

    Raises:
        UsageError: if a field does not fit, a name is no argument's, or the reference has no function `run`.
    """
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
    """Parses the reference, and does not run it."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: the reference is not Python: {error}", _MEND) from error
    if not any(isinstance(each, ast.FunctionDef) and each.name == "run" for each in body):
        raise UsageError(f"{where}: the reference has no function run", _MEND)


def parse_solution(text: str, where: str) -> Solution:
    """A Solution, checked.

    Args:
        text: JSON.
        where: the file, for the message.

    Raises:
        UsageError: if a field does not fit, a path leads out of the Solution's folder, or the entry is in no source.
    """
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
    """A path in a folder, which does not lead out of it.

    Raises:
        UsageError: for any other.
    """
    pure = PurePosixPath(path)
    strange = _CONTROLS.search(path) or len(path) > _LONGEST_PATH or not path.strip()
    if strange or pure.is_absolute() or {"..", "__pycache__"} & set(pure.parts) or not pure.parts or str(pure) != path:
        raise UsageError(f"{where}: the path {path[:80]!r} is not one inside a folder", "paths are as in src/kernel.cu")
    return pure


def parse_traces(text: str, where: str) -> list[Trace]:
    """The lines of a file of workloads or traces; blank ones are passed over.

    Raises:
        UsageError: naming the line in which a field does not fit.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    return [_decode(line, Trace, f"{where} line {number}") for number, line in lines]


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        UsageError: if it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise UsageError(f"{path} cannot be read: {reason}", _MEND) from error


def _decode(text: str, schema: type[T], where: str) -> T:
    try:
        return decode_json(text, schema)
    except SchemaError as error:
        raise UsageError(f"{where}: no {schema.__name__}: {error}", _MEND) from error
