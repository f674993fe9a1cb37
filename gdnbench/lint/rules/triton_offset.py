"""T4: an offset that overflows its 32 bits at a workload of the op."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MemoryAccess


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for setting, event in subject.events():
        wide = event.pointer.wide if isinstance(event, MemoryAccess) else None
        if isinstance(event, MemoryAccess) and wide and event.pointer.tensor:
            yield (
                subject.source.place(wide.node),
                f"an offset into {event.pointer.tensor} is computed in {wide.dtype} and reaches {wide.most:,}"
                f"{at_words(setting)}",
            )


TRITON_OFFSET = LintRule(
    code="T4",
    name="int32-offset",
    language="triton",
    bug="an offset that is computed in int32 overflows at a workload of the op's suites",
    remedy="make its first factor 64 bits wide: tl.program_id(0).to(tl.int64)",
    check=_check,
)
