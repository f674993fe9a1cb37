"""The functions that imported ops and kernels call at run time; their folders hold data and foreign code.

Imports torch, so only workers import this. Foreign code runs when a kernel is bound or inputs are checked, never when
the catalog loads declarations.
"""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gdnbench.codegen.cache import cache_folder
from gdnbench.errors import BuildError, DeclarationError
from gdnbench.exchange.match import (
    BLOBS_FOLDER,
    REFERENCE_FILE,
    SOURCES_FOLDER,
    axis_names,
    stored_definition,
    stored_solution,
    stored_workloads,
)
from gdnbench.exchange.schema import BuildSpec, DefinedTensor, TracedInput
from gdnbench.launch.numerics import load_file

_NARROW = {torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2}
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}
_BITS = {torch.Tensor.view}  # its type says how to read bits; it does not convert


class _Widened(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in _CASTS:
            return args[0].double()
        if function not in _BITS:
            args = [torch.float64 if _is_narrow(each) else each for each in args]
            kwargs = {name: torch.float64 if _is_narrow(each) else each for name, each in kwargs.items()}
        return function(*args, **kwargs)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in _NARROW


def in_float64(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Runs a function with every float a float64: inputs, and what it converts to, makes or returns.

    Floating-point tensors in `arguments` are widened, which is exact. A function that checks the types of its inputs,
    and so fails on float64, is run unchanged.
    """
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with _Widened(), torch.no_grad():
            return _widened(function(*_widened(arguments)))
    except (AssertionError, RuntimeError, TypeError, ValueError):
        torch.set_default_dtype(usual)
        with torch.no_grad():
            return _widened(function(*arguments))
    finally:
        torch.set_default_dtype(usual)


def _widened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _widened(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_widened(each) for each in value)
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_floating else value


Tensors = dict[str, torch.Tensor]

_CPP, _CUDA = (".cpp", ".cc", ".cxx", ".c"), (".cu",)
_INDICES = ("int32", "int64")  # random indices would be out of bounds
_RANGES = {"int8": (-128, 128), "int16": (-1024, 1024)}


class ImportedNumerics:
    """Inputs and the oracle of an imported op, from its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._definition = stored_definition(folder)
        self._names = axis_names(self._definition)
        self._workloads = stored_workloads(folder)

    def make_inputs(self, workload: Any, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
        """Inputs by the first line of these axes, else at random; DeclarationError for integers that no file gives."""
        del scenario
        random = torch.Generator(device="cpu").manual_seed(seed)
        sizes = {name: workload.axes[ours] for name, ours in self._names.items()}
        lines = (each.workload for each in self._workloads)
        line = next((each for each in lines if all(sizes.get(axis) == size for axis, size in each.axes.items())), None)
        tensors: Tensors = {}
        scalars: dict[str, float] = {}
        for name, defined in self._definition.inputs.items():
            traced = line.inputs.get(name) if line else None
            if defined.shape is None:
                scalars[name] = _scalar(traced, random)
            else:
                shape = [sizes[axis] for axis in defined.shape]
                tensors[name] = self._tensor(name, defined, shape, traced, random).to(device)
        return tensors, scalars

    def _tensor(
        self, name: str, defined: DefinedTensor, shape: list[int], traced: TracedInput | None, random: torch.Generator
    ) -> torch.Tensor:
        dtype = getattr(torch, defined.dtype)
        if traced and traced.type == "safetensors":
            from safetensors.torch import load_file as load_tensors

            stored: torch.Tensor = load_tensors(self._folder / BLOBS_FOLDER / str(traced.path))[str(traced.tensor_key)]
            return stored
        if defined.dtype in _INDICES:
            raise DeclarationError(
                f"{name} is {defined.dtype}, and no workload gives its values",
                "import the op with its workloads: at random it would be no index",
            )
        if defined.dtype == "bool":
            return torch.randint(0, 2, shape, generator=random).bool()
        if defined.dtype in _RANGES:
            low, high = _RANGES[defined.dtype]
            return torch.randint(low, high, shape, generator=random).to(dtype)
        drawn = torch.randn(shape, generator=random)
        return (drawn.clamp(-2.0, 2.0) if dtype.itemsize == 1 else drawn).to(dtype)

    def oracle(self, tensors: Tensors, scalars: Mapping[str, float]) -> Tensors:
        """Computes the reference's outputs in float64: see `in_float64`."""
        run = load_file(self._folder / REFERENCE_FILE).run
        values: Mapping[str, Any] = {**tensors, **scalars}
        result = in_float64(run, [values[name] for name in self._definition.inputs])
        return dict(zip(self._definition.outputs, as_outputs(result, list(self._definition.outputs)), strict=True))


def _scalar(traced: TracedInput | None, random: torch.Generator) -> float:
    """Returns the line's value; else one in (0, 1], as a negative eps or scale gives NaN."""
    if traced and traced.value is not None:
        return float(traced.value)
    return 1.0 - float(torch.rand((), generator=random))  # rand may return 0, but not 1


def as_outputs(result: Any, names: Sequence[str]) -> tuple[torch.Tensor, ...]:
    """Returns a function's result as the outputs in order; raises DeclarationError if the number of tensors differs."""
    if isinstance(result, Mapping):
        result = tuple(result.get(name) for name in names)
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(outputs) != len(names) or not all(isinstance(each, torch.Tensor) for each in outputs):
        kinds = ", ".join(type(each).__name__ for each in outputs)
        raise DeclarationError(f"the function returned {kinds}, and not the tensors {', '.join(names)}")
    return outputs


Call = Callable[..., Any]


def solution_binder(
    folder: Path, inputs: Sequence[str], outputs: Sequence[str]
) -> Callable[[Any, Any, Any], Callable[[], tuple[torch.Tensor, ...]]]:
    """Returns the `bind` of an imported kernel; `inputs` and `outputs` are in the Definition's order."""

    def bind(tensors: Any, workload: Any, params: Any) -> Callable[[], tuple[torch.Tensor, ...]]:
        del workload, params
        spec = stored_solution(folder).spec
        function = load_entry(folder)
        arguments = [getattr(tensors, name) for name in inputs]
        if not spec.passes_destinations:
            return lambda: as_outputs(function(*arguments), outputs)
        destinations = tuple(getattr(tensors, name) for name in outputs)

        def run() -> tuple[torch.Tensor, ...]:
            function(*arguments, *destinations)
            return destinations

        return run

    return bind


@cache
def load_entry(folder: Path) -> Call:
    """Imports or builds the function that calls a Solution, once per process; raises BuildError."""
    spec = stored_solution(folder).spec
    module = _load_python(folder, spec) if spec.language in {"python", "triton"} else _build(folder, spec)
    function = getattr(module, spec.entry_name, None)
    if not callable(function):
        raise BuildError(f"{spec.entry_file} defines no function {spec.entry_name}", "see entry_point in solution.json")
    found: Call = function
    return found


def _load_python(folder: Path, spec: BuildSpec) -> ModuleType:
    package = f"gdnbench_solution_{_digest(folder)}"
    parent = ModuleType(package)
    parent.__path__ = [str(folder / SOURCES_FOLDER)]
    sys.modules[package] = parent
    return importlib.import_module(".".join([package, *Path(spec.entry_file).with_suffix("").parts]))


def _build(folder: Path, spec: BuildSpec) -> Any:
    """Builds an extension with the machine's compiler, into the cache; raises BuildError."""
    sources = sorted(path for path in (folder / SOURCES_FOLDER).rglob("*") if path.is_file())
    cpp = [str(path) for path in sources if path.suffix in _CPP]
    cuda = [str(path) for path in sources if path.suffix in _CUDA]
    if cuda and not shutil.which("nvcc"):
        raise BuildError("nvcc is not on the PATH, and the sources are CUDA C++", "install the CUDA toolkit")
    content = b"".join(path.name.encode() + path.read_bytes() for path in sources)
    name = f"gdnbench_{_digest(folder)}_{hashlib.sha256(content).hexdigest()[:12]}"
    target = cache_folder() / "extensions" / name
    target.mkdir(parents=True, exist_ok=True)
    include = [str(folder / SOURCES_FOLDER)]
    try:
        if spec.binding == "torch":
            from torch.utils.cpp_extension import load

            return load(name, [*cpp, *cuda], extra_include_paths=include, build_directory=str(target))
        import tvm_ffi.cpp

        library = tvm_ffi.cpp.build(
            name, cpp_files=cpp, cuda_files=cuda, extra_include_paths=include, build_directory=str(target)
        )
        return tvm_ffi.load_module(library)
    except (RuntimeError, OSError) as error:
        raise BuildError(f"the extension does not build: {error}") from error


def _digest(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest()[:12]
