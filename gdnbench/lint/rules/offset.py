"""T4 and C5: an offset that overflows its 32 bits at a workload of the op."""

from __future__ import annotations

from gdnbench.lint.cuda_evaluate import narrow_offsets
from gdnbench.lint.cuda_source import CudaSubject
from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MemoryAccess


@lint_rule("T4", "int32-offset", remedy="make its first factor 64 bits wide: tl.program_id(0).to(tl.int64)")
def triton_offset(subject: TritonSubject) -> Places:
    """An offset that is computed in int32 overflows at a workload of the op's suites."""
    for setting, event in subject.events():
        wide = event.pointer.wide if isinstance(event, MemoryAccess) else None
        if isinstance(event, MemoryAccess) and wide and event.pointer.tensor:
            yield (
                subject.source.place(wide.node),
                f"an offset into {event.pointer.tensor} is computed in {wide.dtype} and reaches {wide.most:,}"
                f"{at_words(setting)}",
            )


@lint_rule("C5", "int-offset", remedy="make its first factor 64 bits wide: static_cast<size_t>(blockIdx.x)")
def cuda_offset(subject: CudaSubject) -> Places:
    """An offset that is computed in int or unsigned overflows at a workload of the op's suites."""
    for function in subject.source.functions:
        if not function.is_kernel or not function.is_understood:
            continue
        for setting in subject.settings.get(function.name, ()):
            for node, most in narrow_offsets(subject.source, subject.headers, function, setting):
                text = f"an offset is computed in 32 bits and reaches {most:,}{at_words(setting)}"
                yield subject.source.place(node), text
