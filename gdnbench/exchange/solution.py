"""A kernel with its params fixed as a Solution: its own files, and a binding that calls it.

In Python the binding is `solution.py`, of `python_sources.py`; in CUDA C++ `solution.cu`, which nvcc builds, with
params as macros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gdnbench.catalog.entry import CatalogEntry, included_files
from gdnbench.errors import UsageError
from gdnbench.exchange.match import ExportedKernel
from gdnbench.exchange.python_sources import cute_sources, launch_arguments, torch_sources, triton_sources
from gdnbench.exchange.reference import as_cpp
from gdnbench.exchange.schema import BuildSpec, ExtensionBinding, Language, Solution, SourceFile, read_text
from gdnbench.model.declaration import FACTS, TensorSpec
from gdnbench.model.kernel import CudaKernel, CudaLaunch, CuteKernel, CutileKernel, TorchKernel, TritonKernel


def solution_of(subject: ExportedKernel, author: str, binding: ExtensionBinding) -> Solution:
    """A variant's Solution, `binding` for CUDA C++; UsageError if it needs other code, as an imported one does."""
    entry, definition = subject.entry, subject.match.definition
    language, sources = _sources(subject, binding)
    return Solution(
        name=re.sub(r"[^A-Za-z0-9._+-]", "", subject.variant.label.replace(":", "_").replace("=", "")),
        definition=definition.name,
        author=author,
        spec=BuildSpec(
            language=language,
            target_hardware=list(entry.kernel.devices),
            entry_point=f"{sources[0].path}::run",
            dependencies=[need.module for need in entry.kernel.requires] or None,
            destination_passing_style=not isinstance(entry.kernel, TorchKernel),
            binding=binding if language == "cuda" else None,
        ),
        sources=sources,
        description=f"{entry.idea} Params: {params}." if (params := subject.variant.params) else entry.idea,
    )


def _sources(subject: ExportedKernel, binding: ExtensionBinding) -> tuple[Language, list[SourceFile]]:
    match subject.entry.kernel:
        case CuteKernel():
            return "python", cute_sources(subject)
        case CutileKernel():
            raise UsageError(f"{subject.entry.kernel.name} is in cuTile, which no Solution has", "export other kernels")
        case CudaKernel():
            return "cuda", cuda_sources(subject, binding)
        case TritonKernel():
            return "triton", triton_sources(subject)
        case TorchKernel():
            return "python", torch_sources(subject)
        case other:
            raise UsageError(f"{other.name} has no code of its own", "export the kernels that it picks")


_FRAMEWORKS: dict[ExtensionBinding, dict[str, str]] = {
    "tvm-ffi": {
        "headers": "#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/extra/c_env_api.h>\n"
        "#include <tvm/ffi/function.h>",
        "tensor": "tvm::ffi::TensorView",
        "device": "const int device = {first}.device().device_id;",
        "stream": "static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, device))",
        "export": "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gdnbench_solution::run)",
    },
    "torch": {
        "headers": "#include <c10/cuda/CUDAStream.h>\n#include <torch/extension.h>",
        "tensor": "const torch::Tensor&",
        "device": "const int device = {first}.get_device();",
        "stream": "c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream()",
        "export": 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("run", &gdnbench_solution::run); }',
    },
}

DIVISION = """\
// Divide as Python does: towards minus infinity.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
"""
"""C++ functions that expressions of sizes call."""

_LAUNCH = """\
inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

inline void launch(const void* kernel, dim3 grid, unsigned threads, int64_t shared, void** arguments, cudaStream_t on) {
  if (shared > 48 << 10)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  check(cudaLaunchKernel(kernel, grid, dim3(threads), arguments, static_cast<size_t>(shared), on));
}
"""


def cuda_sources(subject: ExportedKernel, binding: ExtensionBinding) -> list[SourceFile]:
    """The binding, the kernel, and the headers that they include; UsageError if an include is outside them."""
    entry = subject.entry
    headers = _headers(entry)
    kernel = next(name for name in ("kernel.cuh", "kernel_source.cuh", "gdnbench_kernel.cuh") if name not in headers)
    return [
        SourceFile(path="solution.cu", content=_binding(subject, binding, kernel)),
        SourceFile(path=kernel, content=read_text(entry.source)),  # a header, so that it is not compiled by itself
        *(SourceFile(path=name, content=text) for name, text in sorted(headers.items())),
    ]


def _headers(entry: CatalogEntry) -> dict[str, str]:
    paths: dict[str, Path] = {}
    for name, path in included_files(entry.source, entry.include_path):
        home = next((each for each in entry.include_path if path.resolve().is_relative_to(each.resolve())), path)
        is_home = (home / name).resolve() == path.resolve() and ".." not in Path(name).parts
        if not is_home or paths.setdefault(name, path) != path:
            text = f"{entry.source} includes {name}, which a Solution cannot hold"
            raise UsageError(text, "put it into the kernel's folder")
    return {name: read_text(path) for name, path in paths.items()}


def _binding(subject: ExportedKernel, binding: ExtensionBinding, kernel: str) -> str:
    framework = _FRAMEWORKS[binding]
    declared = subject.entry.kernel
    assert isinstance(declared, CudaKernel)
    op, params = subject.match.op, subject.variant.params
    tensor, scalars = framework["tensor"], set(op.scalars)
    arguments = ", ".join(
        f"double {name}" if name in scalars else f"{tensor} {name}" for name in subject.match.definition.tensors
    )
    axes = {name: size for name, size in subject.known.items() if name in subject.workloads[0].compile_time}
    macros = [f"#define {op.macro_prefix}{name} {size}" for name, size in axes.items()]
    macros += [f"#define {name} {value}" for name, value in params.items()]
    body = "\n".join(f"  {line}" for line in _body(subject, declared, framework))
    return f"""\
// {subject.title}: params and constant axes as macros, and the host's side.
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

{framework["headers"]}

{chr(10).join(macros)}

#include "{kernel}"

namespace gdnbench_solution {{

{DIVISION}
{_LAUNCH}
void run({arguments}) {{
{body}
}}

}}  // namespace gdnbench_solution

{framework["export"]}
"""


def _body(subject: ExportedKernel, kernel: CudaKernel, framework: dict[str, str]) -> Iterator[str]:
    op = subject.match.op
    yield framework["device"].format(first=op.inputs[0].name)
    yield "check(cudaSetDevice(device));"
    yield f"const cudaStream_t on = {framework['stream']};"
    for name, (tensor, place) in subject.unknown.items():
        yield f"const int64_t {name} = {tensor}.size({place});"
    for spec in (*op.inputs, *op.outputs):
        yield f"void* {spec.name}_data = {spec.name}.data_ptr();"
    for name in op.scalars:
        yield f"float {name}_value = static_cast<float>({name});"
    for target, source in kernel.in_place.items():
        size = _bytes(subject, next(spec for spec in op.outputs if spec.name == target))
        yield f"check(cudaMemcpyAsync({target}_data, {source}_data, {size}, cudaMemcpyDeviceToDevice, on));"
    for spec in kernel.scratch:
        yield f"void* {spec.name}_data = nullptr;"
        yield f"check(cudaMallocAsync(&{spec.name}_data, {_bytes(subject, spec)}, on));"
    for launch in kernel.launches:
        yield from _launch(subject, kernel, launch)
    for spec in kernel.scratch:
        yield f"check(cudaFreeAsync({spec.name}_data, on));"


def _bytes(subject: ExportedKernel, spec: TensorSpec) -> str:
    dims = (f"INT64_C({dim})" if dim.isdigit() else dim for dim in subject.scratch_dims(spec))
    return " * ".join([str(FACTS[spec.settled].nbytes), *dims])


def _launch(subject: ExportedKernel, kernel: CudaKernel, launch: CudaLaunch) -> Iterator[str]:
    op = subject.match.op
    grid, block, shared = (subject.sizes_of(each) for each in (launch.grid, launch.block, launch.shared_bytes))
    tensors = {spec.name for spec in (*op.tensors, *kernel.scratch)}
    names = launch_arguments(subject, kernel, launch)
    yield "{"
    for name in names:
        if name not in tensors and name not in op.scalars:
            kind = "long long" if name in op.derived else "int"
            yield f"  {kind} {name}_value = static_cast<{kind}>({subject.size_text(name)});"
    values = ", ".join(f"&{name}_{'data' if name in tensors else 'value'}" for name in names)
    yield f"  void* arguments[] = {{{values}}};"
    blocks = ", ".join(f"static_cast<unsigned>({as_cpp(size)})" for size in grid)
    yield f"  const dim3 grid({blocks});"
    yield f"  const unsigned threads = static_cast<unsigned>({as_cpp(block[0])});"
    kernel_address = f"reinterpret_cast<const void*>(&::{launch.entry})"
    yield f"  launch({kernel_address}, grid, threads, {as_cpp(shared[0])}, arguments, on);"
    yield "}"
