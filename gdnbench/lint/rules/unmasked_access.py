"""T1: a load or store without a mask that reaches beyond its tensor."""

from __future__ import annotations

from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MemoryAccess


@lint_rule("T1", "unmasked-access", remedy="give it a mask, or a block that divides the size")
def unmasked_access(subject: TritonSubject) -> Places:
    """A tl.load or tl.store over tl.arange without a mask reaches beyond its tensor at a workload of the op."""
    for setting, event in subject.events():
        if not isinstance(event, MemoryAccess) or event.masked or event.is_conditional or not event.pointer.by_lane:
            continue
        tensor = setting.tensors.get(event.pointer.tensor)
        if event.pointer.span is None or tensor is None:
            continue
        least, most = event.pointer.span.bounds
        if most >= tensor.elements or least < 0:
            reach = f"element {most:,}" if most >= tensor.elements else f"element {least:,}"
            yield (
                subject.source.place(event.node),
                f"the {event.kind} has no mask and reaches {reach} of {event.pointer.tensor}, which has "
                f"{tensor.elements:,}{at_words(setting)}",
            )
