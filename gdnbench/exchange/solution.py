"""A kernel with its params fixed as a Solution."""

from __future__ import annotations

import re

from gdnbench.errors import UsageError
from gdnbench.exchange import cuda_source, python_source
from gdnbench.exchange.kept import SOLUTION_FILE, kept_solution
from gdnbench.exchange.schema import BuildSpec, ExtensionBinding, Language, Solution, SourceFile
from gdnbench.exchange.subject import ExportedKernel
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel


def solution_of(subject: ExportedKernel, *, author: str, binding: ExtensionBinding) -> Solution:
    """Returns a variant's Solution, unchanged if imported; `binding` is for kernels in CUDA C++.

    Raises UsageError if the kernel needs code outside its sources, or was imported for another Definition.
    """
    entry, definition = subject.entry, subject.match.definition
    if (entry.folder / SOLUTION_FILE).is_file():
        kept = kept_solution(entry.folder)
        if kept.definition != definition.name:
            raise UsageError(f"{entry.kernel.name} was imported for {kept.definition}", "export it for that Definition")
        return kept
    language, sources, is_binding = _sources(subject, binding)
    entry_file = sources[0].path
    return Solution(
        name=solution_name(subject.variant.label),
        definition=definition.name,
        author=author,
        spec=BuildSpec(
            language=language,
            target_hardware=list(entry.kernel.devices),
            entry_point=f"{entry_file}::run",
            dependencies=[need.module for need in entry.kernel.requires] or None,
            destination_passing_style=language != "python",
            binding=binding if is_binding else None,
        ),
        sources=sources,
        description=_description(subject),
    )


def solution_name(label: str) -> str:
    """Returns a label as a Solution's name, also its file's: `decode-triton_BV16` for `decode-triton:BV=16`."""
    return re.sub(r"[^A-Za-z0-9._+-]", "", label.replace(":", "_").replace("=", ""))


def _sources(subject: ExportedKernel, binding: ExtensionBinding) -> tuple[Language, list[SourceFile], bool]:
    match subject.entry.kernel:
        case CudaKernel():
            return "cuda", cuda_source.cuda_sources(subject, binding), True
        case TritonKernel():
            return "triton", python_source.triton_sources(subject), False
        case TorchKernel():
            return "python", python_source.torch_sources(subject), False
        case other:
            raise UsageError(f"{other.name} has no code of its own", "export the kernels that it picks")


def _description(subject: ExportedKernel) -> str:
    params = f" Params: {subject.variant.params}." if subject.variant.params else ""
    return f"{subject.entry.idea}{params}"
