"""T3: a `tl.dot` of fp32 operands without an explicit precision."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MatrixProduct


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for _, event in subject.events():
        if isinstance(event, MatrixProduct) and not event.says_precision and event.left.dtype == "fp32":
            yield (
                subject.source.place(event.node),
                "tl.dot rounds its fp32 operands to TF32, of which 10 of 23 bits of fraction are left",
            )


DOT_TF32 = LintRule(
    code="T3",
    name="dot-tf32",
    language="triton",
    bug="a tl.dot of fp32 operands without input_precision multiplies in TF32",
    remedy='say input_precision="ieee", "tf32x3" or, where it is meant, "tf32"',
    check=_check,
)
