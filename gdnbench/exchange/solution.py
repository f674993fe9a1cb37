"""A kernel with its params fixed as a Solution."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gdnbench import trace
from gdnbench.errors import UsageError
from gdnbench.exchange.cuda_source import cuda_sources
from gdnbench.exchange.match import SOLUTION_FILE, ExportedKernel, stored_solution
from gdnbench.exchange.reference import as_python
from gdnbench.exchange.schema import (
    BuildSpec,
    ExtensionBinding,
    Language,
    Solution,
    SourceFile,
    read_text,
)
from gdnbench.model.declaration import FACTS, TensorSpec
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel


def solution_of(subject: ExportedKernel, author: str, binding: ExtensionBinding) -> Solution:
    """Returns a variant's Solution, unchanged if imported; `binding` is for kernels in CUDA C++.

    Raises UsageError if the kernel needs code outside its sources, or was imported for another Definition.
    """
    entry, definition = subject.entry, subject.match.definition
    if (entry.folder / SOLUTION_FILE).is_file():
        solution = stored_solution(entry.folder)
        if solution.definition != definition.name:
            raise UsageError(
                f"{entry.kernel.name} was imported for {solution.definition}", "export it for that Definition"
            )
        return solution
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
        case CudaKernel():
            return "cuda", cuda_sources(subject, binding)
        case TritonKernel():
            return "triton", triton_sources(subject)
        case TorchKernel():
            return "python", torch_sources(subject)
        case other:
            raise UsageError(f"{other.name} has no code of its own", "export the kernels that it picks")


BINDING_FILE = "solution.py"
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
    return [SourceFile(path=BINDING_FILE, content=text), *files]


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
    """Returns the parameters of a function in a file, without running it; raises UsageError if it is not defined."""
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
    return [SourceFile(path=BINDING_FILE, content=text), *_kernel_files(subject.entry.source)]


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
    """Yields imports, except those under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            waiting += node.orelse
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            waiting += ast.iter_child_nodes(node)
