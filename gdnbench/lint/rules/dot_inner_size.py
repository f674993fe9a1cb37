"""T2: a `tl.dot` whose inner size is below Triton's minimum."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MatrixProduct

# triton/backends/nvidia/compiler.py, min_dot_size: M and N are padded and may be 1; K is not.
_LEAST = 16
_LEAST_OF_BYTES = 32


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for setting, event in subject.events():
        if not isinstance(event, MatrixProduct):
            continue
        inner = _inner_size(event)
        least = _LEAST_OF_BYTES if event.left.bits == 8 else _LEAST
        if inner is not None and inner < least:
            yield (
                subject.source.place(event.node),
                f"tl.dot sums over {inner} elements and takes at least {least}{at_words(setting)}",
            )


def _inner_size(event: MatrixProduct) -> int | None:
    if event.left.shape:
        return event.left.shape[-1]
    right = event.right.shape
    return right[-2] if right is not None and len(right) >= 2 else None


DOT_INNER_SIZE = LintRule(
    code="T2",
    name="dot-inner-size",
    language="triton",
    bug="a tl.dot sums over fewer than 16 elements (32 of 8 bits) at a choice that the declaration allows",
    remedy="leave that choice out of the declaration, or pad the inner size with zeros",
    check=_check,
)
