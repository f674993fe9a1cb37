"""The functions that imported kernels call at run time; their folders hold foreign code.

Imports torch, so only workers import this. Foreign code runs when a kernel is bound, never when the catalog loads
declarations.
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

from gdnbench.codegen.cache import cache_folder
from gdnbench.errors import BuildError, DeclarationError
from gdnbench.exchange.match import SOURCES_FOLDER, stored_solution
from gdnbench.exchange.schema import BuildSpec

_CPP, _CUDA = (".cpp", ".cc", ".cxx", ".c"), (".cu",)


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
    module = _load_python(folder, spec) if spec.is_python else _build(folder, spec)
    function: Call | None = getattr(module, spec.entry_name, None)
    if not callable(function):
        raise BuildError(f"{spec.entry_file} defines no function {spec.entry_name}", "see entry_point in solution.json")
    return function


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
