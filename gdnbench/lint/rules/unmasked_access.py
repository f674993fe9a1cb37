"""T1: a load or store without a mask that reaches beyond its tensor."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MemoryAccess, offset_span


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for setting, event in subject.events():
        if not isinstance(event, MemoryAccess) or event.masked or event.is_conditional or not event.pointer.by_lane:
            continue
        span, tensor = offset_span(event), setting.tensors.get(event.pointer.tensor)
        if span is None or tensor is None:
            continue
        least, most = span.bounds
        if most >= tensor.elements or least < 0:
            reach = f"element {most:,}" if most >= tensor.elements else f"element {least:,}"
            yield (
                subject.source.place(event.node),
                f"the {event.kind} has no mask and reaches {reach} of {event.pointer.tensor}, which has "
                f"{tensor.elements:,}{at_words(setting)}",
            )


UNMASKED_ACCESS = LintRule(
    code="T1",
    name="unmasked-access",
    language="triton",
    bug="a tl.load or tl.store over tl.arange without a mask reaches beyond its tensor at a workload of the op",
    remedy="give it a mask, or a block that divides the size",
    check=_check,
)
