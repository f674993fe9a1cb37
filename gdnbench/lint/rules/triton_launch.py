"""T9: a launch that CUDA refuses."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import first_refused
from gdnbench.lint.triton_subject import TritonSubject


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for entry, settings in subject.settings.items():
        function = subject.source.functions.get(entry)
        if function and (told := first_refused(settings)):
            yield subject.source.place(function.node), told


TRITON_LAUNCH = LintRule(
    code="T9",
    name="refused-launch",
    language="triton",
    bug="a launch at a workload of the op has a grid, or warps, that CUDA refuses",
    remedy="stay within the limit, or name the workloads that the kernel can do by `check` in variant.py",
    check=_check,
)
