"""C5: an offset that overflows its 32 bits at a workload of the op."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.cuda_evaluate import narrow_offsets
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import at_words


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    for function in subject.source.functions:
        if not function.is_kernel or not function.is_understood:
            continue
        for setting in subject.settings.get(function.name, ()):
            for offset in narrow_offsets(subject.source, subject.headers, function, setting):
                yield (
                    subject.source.place(offset.node),
                    f"an offset is computed in 32 bits and reaches {offset.most:,}{at_words(setting)}",
                )


CUDA_OFFSET = LintRule(
    code="C5",
    name="int-offset",
    language="cuda",
    bug="an offset that is computed in int or unsigned overflows at a workload of the op's suites",
    remedy="make its first factor 64 bits wide: static_cast<size_t>(blockIdx.x)",
    check=_check,
)
