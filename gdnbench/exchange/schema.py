"""The files of flashinfer-bench: a Definition, a Solution, and lines of workloads and traces.

Fields are those of flashinfer-bench 0.1.2. As in its own files, unset fields are left out; unknown ones are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal

import msgspec

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
    """Returns a Definition or Solution as the text of its file."""
    return json.dumps(document_of(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_lines(traces: list[Trace]) -> str:
    """Returns traces as the text of their file, a line each."""
    return "".join(json.dumps(document_of(each), ensure_ascii=False, allow_nan=False) + "\n" for each in traces)
