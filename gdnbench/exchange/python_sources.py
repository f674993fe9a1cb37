"""Solutions in Python: `solution.py`, and beside it the files of a kernel in Triton, CuTe DSL, or Python itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from gdnbench import trace
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import UsageError
from gdnbench.exchange.match import ExportedKernel
from gdnbench.exchange.reference import as_python
from gdnbench.exchange.schema import SourceFile, read_text
from gdnbench.model.case import STRIDE, arguments_of
from gdnbench.model.declaration import FACTS, TensorSpec
from gdnbench.model.kernel import CudaKernel, CudaLaunch, CuteKernel, TorchKernel, TritonKernel

_KERNEL_FILE = "kernel.py"
_TRACE_FILE = "trace.py"
_STAND_ALONE = "a Solution stands alone: it has only what Triton, torch and its own files give"


def triton_sources(subject: ExportedKernel) -> list[SourceFile]:
    """Returns a `run` in destination-passing style, and the kernel; raises UsageError if they would need gdnbench."""
    kernel = subject.entry.kernel
    assert isinstance(kernel, TritonKernel)
    files = _kernel_files(subject.entry)
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
    return [SourceFile(path="solution.py", content=text), *_kernel_files(subject.entry)]


def cute_sources(subject: ExportedKernel) -> list[SourceFile]:
    """Returns a `run` in destination-passing style that compiles at its first call, and the kernel's files.

    UsageError is raised if they would need gdnbench, or the launch what no Solution has.
    """
    kernel = subject.entry.kernel
    assert isinstance(kernel, CuteKernel)
    entries = ", ".join(launch.entry for launch in kernel.launches)
    launches = [_cute_launch(subject, kernel, launch) for launch in kernel.launches]
    lines = [*_sizes(subject), *_copies(subject)]
    lines += [f"{spec.name} = {_empty(subject, spec)}" for spec in kernel.scratch]
    lines += ["stream = CUstream(torch.cuda.current_stream().cuda_stream)", *(call for _, call in launches)]
    text = f'''\
"""{subject.title}."""

import cutlass
import torch
from cuda.bindings.driver import CUstream
from cutlass import cute
from cutlass.cute.runtime import make_ptr

from .{Path(_KERNEL_FILE).stem} import {entries}

COMPILED = {{}}


def pointer(tensor, kind):
    return make_ptr(kind, tensor.data_ptr(), cute.AddressSpace.gmem, assumed_align=16)


def call(function, *arguments):
    if function not in COMPILED:
        COMPILED[function] = cute.compile(function, *arguments)
    COMPILED[function](*arguments)


{chr(10).join(function for function, _ in launches)}
def run({", ".join(subject.match.definition.tensors)}):
{_indented(lines)}
'''
    return [SourceFile(path="solution.py", content=text), *_kernel_files(subject.entry)]


def _cute_launch(subject: ExportedKernel, kernel: CuteKernel, launch: CudaLaunch) -> tuple[str, str]:
    """Returns a function of the host that launches, and the line that calls it."""
    op = subject.match.op
    grid, block, shared = (subject.sizes_of(each) for each in (launch.grid, launch.block, launch.shared_bytes))
    tensors = {spec.name: spec for spec in (*op.tensors, *kernel.scratch)}
    names = launch_arguments(subject, kernel, launch)
    axes = [f"g{place}" for place in range(len(grid))]
    taken = _parameters(read_text(subject.entry.source), launch.entry)[len(names) :]
    constants = {**subject.workloads[0].compile_time, **subject.variant.params}
    values = [*names, *(f"{name}={constants[name]!r}" for name in taken)]
    typed, given = [], []
    for name in names:
        if spec := tensors.get(name):
            typed.append(f"{name}: cute.Pointer")
            given.append(f"pointer({name}, cutlass.{FACTS[spec.settled].cute})")
        else:
            kind = "Float32" if name in op.scalars else "Int32" if name in op.workloads.names else "Int64"
            typed.append(f"{name}: cutlass.{kind}")
            given.append(f"cutlass.{kind}({name if name in op.scalars else subject.size_text(name)})")
    typed += [f"{axis}: cutlass.Int32" for axis in axes]
    given += [f"cutlass.Int32({as_python(size)})" for size in grid]
    three = ", ".join([*axes, "1", "1"][:3])
    function = f"""\
@cute.jit
def launch_{launch.entry}({", ".join(typed)}, stream: CUstream):
    {launch.entry}({", ".join(values)}).launch(
        grid=({three}), block=({as_python(block[0])}, 1, 1), smem={as_python(shared[0])}, stream=stream
    )

"""
    return function, f"call(launch_{launch.entry}, {', '.join(given)}, stream)"


def launch_arguments(subject: ExportedKernel, kernel: CudaKernel, launch: CudaLaunch) -> list[str]:
    """Returns the names of a launch's arguments; UsageError if it takes or does what no Solution has."""
    arguments = arguments_of(subject.match.op, kernel, launch)
    names = [each for each in arguments if isinstance(each, str)]
    reason = ""
    if len(names) < len(arguments):
        reason = "takes tensor maps, which no Solution makes"
    elif any(name.removesuffix(STRIDE) in kernel.strided for name in names if name.endswith(STRIDE)):
        reason = "takes strides, which no Solution gives"
    elif launch.begins_early:
        reason = "begins early, and launches of a Solution do not"
    if reason:
        raise UsageError(f"{launch.entry} {reason}", "export other kernels")
    return names


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


def _kernel_files(entry: CatalogEntry) -> list[SourceFile]:
    """Returns the kernel's file, those that it imports, and gdnbench's `trace` if that is imported."""
    texts = {name: _alone(name, path) for name, path in [(_KERNEL_FILE, entry.source), *entry.included()]}
    files = [SourceFile(path=name, content=text) for name, (text, _) in texts.items()]
    if any(uses_trace for _, uses_trace in texts.values()):
        files.append(SourceFile(path=_TRACE_FILE, content=read_text(Path(trace.__file__))))
    return files


def _alone(name: str, source: Path) -> tuple[str, bool]:
    """Returns a file's text without gdnbench, and whether it uses its `trace`, which lies beside a Solution's files."""
    text, uses_trace = read_text(source), False
    lines = text.splitlines(keepends=True)
    for node in _run_time_imports(ast.parse(text)):
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if not any(module.partition(".")[0] == "gdnbench" for module in modules):
            continue
        plain = isinstance(node, ast.ImportFrom) and [(each.name, each.asname) for each in node.names]
        if modules != ["gdnbench"] or plain != [("trace", None)] or node.end_lineno != node.lineno:
            raise UsageError(f"{source}:{node.lineno} imports gdnbench", _STAND_ALONE)
        line = lines[node.lineno - 1]
        here = f"from .{'.' * name.count('/')} import trace"
        lines[node.lineno - 1] = line[: node.col_offset] + here + line[node.end_col_offset :]
        uses_trace = True
    return "".join(lines), uses_trace


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
