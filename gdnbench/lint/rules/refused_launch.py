"""T9 and C7: a launch that CUDA refuses."""

from __future__ import annotations

from gdnbench.lint.cuda_source import CudaSubject
from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.settings import first_refused
from gdnbench.lint.triton_subject import TritonSubject

_REMEDY = "stay within the limit, or name the workloads that the kernel can do by `check` in variant.py"


@lint_rule("T9", "refused-launch", remedy=_REMEDY)
def triton_launch(subject: TritonSubject) -> Places:
    """A launch at a workload of the op has a grid, or warps, that CUDA refuses."""
    for entry, settings in subject.settings.items():
        function = subject.source.functions.get(entry)
        if function and (reason := first_refused(settings)):
            yield subject.source.place(function.node), reason


@lint_rule("C7", "refused-launch", remedy=_REMEDY)
def cuda_launch(subject: CudaSubject) -> Places:
    """A launch at a workload of the op has a grid, block or shared memory that CUDA refuses."""
    for entry, settings in subject.settings.items():
        if reason := first_refused(settings):
            yield subject.source.place_of_kernel(entry), reason
