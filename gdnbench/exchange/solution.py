"""A kernel with its params fixed as a Solution: its own files, and a binding that calls it.

In Triton and Python the binding is `solution.py`; in CUDA C++ `solution.cu`, which nvcc builds, with params as macros.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gdnbench import trace
from gdnbench.catalog.entry import CatalogEntry, included_headers
from gdnbench.errors import UsageError
from gdnbench.exchange.match import ExportedKernel
from gdnbench.exchange.reference import as_cpp, as_python
from gdnbench.exchange.schema import BuildSpec, ExtensionBinding, Language, Solution, SourceFile, read_text
from gdnbench.model.case import STRIDE, arguments_of
from gdnbench.model.declaration import FACTS, TensorSpec
from gdnbench.model.kernel import CudaKernel, CudaLaunch, CuteKernel, TorchKernel, TritonKernel


def solution_of(subject: ExportedKernel, author: str, binding: ExtensionBinding) -> Solution:
    """A variant's Solution, `binding` for CUDA C++; UsageError if it needs other code, as an imported one does."""
    entry, definition = subject.entry, subject.match.definition
    language, sources = _sources(subject, binding)
    return Solution(
        name=solution_name(subject.variant.label),
        definition=definition.name,
        author=author,
        spec=BuildSpec(
            language=language,
            target_hardware=list(entry.kernel.devices),
            entry_point=f"{sources[0].path}::run",
            dependencies=[need.module for need in entry.kernel.requires] or None,
            destination_passing_style=language != "python",
            binding=binding if language == "cuda" else None,
        ),
        sources=sources,
        description=f"{entry.idea} Params: {params}." if (params := subject.variant.params) else entry.idea,
    )


def solution_name(label: str) -> str:
    """Returns a label as a Solution's name, also its file's: `decode-triton_BV16` for `decode-triton:BV=16`."""
    return re.sub(r"[^A-Za-z0-9._+-]", "", label.replace(":", "_").replace("=", ""))


def _sources(subject: ExportedKernel, binding: ExtensionBinding) -> tuple[Language, list[SourceFile]]:
    match subject.entry.kernel:
        case CuteKernel() as kernel:
            raise UsageError(f"{kernel.name} is in CuTe DSL, of which no Solution is made", "export the others")
        case CudaKernel():
            return "cuda", cuda_sources(subject, binding)
        case TritonKernel():
            return "triton", triton_sources(subject)
        case TorchKernel():
            return "python", torch_sources(subject)
        case other:
            raise UsageError(f"{other.name} has no code of its own", "export the kernels that it picks")


_KERNEL_FILE = "kernel.py"
_TRACE_FILE = "trace.py"
_STAND_ALONE = "a Solution stands alone: it has only what Triton, torch and its own files give"


def triton_sources(subject: ExportedKernel) -> list[SourceFile]:
    """Returns a `run` in destination-passing style, and the kernel; raises UsageError if they would need gdnbench."""
    kernel = subject.entry.kernel
    assert isinstance(kernel, TritonKernel)
    files = _kernel_files(subject.entry.source)
    entries = ", ".join(dict.fromkeys(launch.entry for launch in kernel.launches))
    lines = [*_sizes(subject), *_copies(subject)]
    lines += [f"{spec.name} = {_empty(subject, spec)}" for spec in kernel.scratch]
    lines += _triton_launches(subject, kernel, files[0].content)
    arguments = ", ".join(subject.match.definition.tensors)
    needs_torch = "import torch\n\n" if kernel.scratch else ""
    text = f'''\
"""{subject.title}."""

{needs_torch}from .{Path(_KERNEL_FILE).stem} import {entries}


def run({arguments}):
{_indented(lines)}
'''
    return [SourceFile(path="solution.py", content=text), *files]


def _triton_launches(subject: ExportedKernel, kernel: TritonKernel, source: str) -> Iterator[str]:
    params = subject.variant.params
    for launch in kernel.launches:
        grid, warps, stages = (subject.sizes_of(each) for each in (launch.grid, launch.warps, launch.stages))
        own = {spec.name for spec in (*subject.match.op.tensors, *kernel.scratch)} | set(subject.match.op.scalars)
        texts = {**{name: repr(value) for name, value in params.items()}, **{name: name for name in own}}
        names = _parameters(source, launch.entry)
        values = [f"{name}={texts[name] if name in texts else subject.size_text(name)}" for name in names]
        values += [f"num_warps={as_python(warps[0])}", f"num_stages={as_python(stages[0])}"]
        yield f"{launch.entry}[({', '.join(map(as_python, grid))},)](\n    {', '.join(values)},\n)"


def _parameters(source: str, entry: str) -> list[str]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            return [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    raise UsageError(f"the kernel's file defines no function {entry} at its top", "define it there")


def torch_sources(subject: ExportedKernel) -> list[SourceFile]:
    """Returns a `run` that returns the outputs, and the kernel; raises UsageError if the kernel needs gdnbench."""
    kernel = subject.entry.kernel
    assert isinstance(kernel, TorchKernel)
    op = subject.match.op
    tensors = ", ".join(f"{name}={name}" for name in (*(spec.name for spec in op.tensors), *op.scalars))
    axes = [axis.name for axis in op.workloads.axes if axis.name in subject.known or axis.name in subject.unknown]
    sizes = ", ".join(f'"{name}": {subject.size_text(name)}' for name in axes)
    order, declared = list(subject.match.definition.outputs), [spec.name for spec in op.outputs]
    picked = "" if order == declared else f"[{', '.join(str(declared.index(name)) for name in order)}]"
    returned = f"tuple(found[place] for place in {picked})" if picked else "tuple(found)"
    lines = [
        *_sizes(subject),
        *(f"{spec.name} = {_empty(subject, spec)}" for spec in op.outputs),
        *_copies(subject),
        f"tensors = SimpleNamespace({tensors})",
        f"found = bind(tensors, Named({{{sizes}}}), PARAMS)()",
        f"return {returned}",
    ]
    imported = "bind" if kernel.entry == "bind" else f"{kernel.entry} as bind"
    text = f'''\
"""{subject.title}: each call binds the kernel to the tensors given, and runs it."""

from types import SimpleNamespace

import torch

from .{Path(_KERNEL_FILE).stem} import {imported}


class Named(dict):
    """Numbers by name, as items or as attributes."""

    __getattr__ = dict.__getitem__


PARAMS = Named({dict(subject.variant.params)!r})


def run({", ".join(subject.match.definition.inputs)}):
{_indented(lines)}
'''
    return [SourceFile(path="solution.py", content=text), *_kernel_files(subject.entry.source)]


def _sizes(subject: ExportedKernel) -> Iterator[str]:
    for name, (tensor, place) in subject.unknown.items():
        yield f"{name} = {tensor}.shape[{place}]"


def _copies(subject: ExportedKernel) -> Iterator[str]:
    for target, source in subject.entry.kernel.in_place.items():
        yield f"{target}.copy_({source})"


def _empty(subject: ExportedKernel, spec: TensorSpec) -> str:
    dims = "".join(f"{dim}, " for dim in subject.scratch_dims(spec)).rstrip()
    first = subject.match.op.inputs[0].name
    return f"torch.empty(({dims}), dtype=torch.{FACTS[spec.settled].torch}, device={first}.device)"


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for text in lines for line in text.splitlines())


def _kernel_files(source: Path) -> list[SourceFile]:
    """Returns the kernel's file, and gdnbench's `trace` if that is imported."""
    text = read_text(source)
    tree = ast.parse(text)
    lines, uses_trace = text.splitlines(keepends=True), False
    for node in _run_time_imports(tree):
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if not any(module.partition(".")[0] == "gdnbench" for module in modules):
            continue
        plain = isinstance(node, ast.ImportFrom) and [(each.name, each.asname) for each in node.names]
        if modules != ["gdnbench"] or plain != [("trace", None)] or node.end_lineno != node.lineno:
            raise UsageError(f"{source}:{node.lineno} imports gdnbench", _STAND_ALONE)
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + "from . import trace" + line[node.end_col_offset :]
        uses_trace = True
    files = [SourceFile(path=_KERNEL_FILE, content="".join(lines))]
    return [*files, SourceFile(path=_TRACE_FILE, content=read_text(Path(trace.__file__)))] if uses_trace else files


def _run_time_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            waiting += node.orelse
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            waiting += ast.iter_child_nodes(node)


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
    for name, path in included_headers(entry.source, entry.include_path):
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
    arguments = arguments_of(op, kernel, launch)
    names = [each for each in arguments if isinstance(each, str)]
    if len(names) < len(arguments):
        raise UsageError(f"{launch.entry} takes tensor maps, which no Solution makes", "export other kernels")
    if any(name.removesuffix(STRIDE) in kernel.strided for name in names if name.endswith(STRIDE)):
        raise UsageError(f"{launch.entry} takes strides, which no Solution gives", "export other kernels")
    if launch.begins_early:
        raise UsageError(f"{launch.entry} begins early, and launches of a Solution do not", "export other kernels")
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
