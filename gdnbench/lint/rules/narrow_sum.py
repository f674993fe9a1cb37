"""T5: a `tl.sum` that adds in 16 bits."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import TensorSum


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for _, event in subject.events():
        if isinstance(event, TensorSum) and event.summed.dtype in {"bf16", "fp16"} and not _says_dtype(event):
            kept = {"bf16": 8, "fp16": 11}[event.summed.dtype]
            yield (
                subject.source.place(event.node),
                f"tl.sum adds in {event.summed.dtype}: each partial sum is rounded to {kept} bits",
            )


def _says_dtype(event: TensorSum) -> bool:
    return any(each.arg == "dtype" for each in event.node.keywords)


NARROW_SUM = LintRule(
    code="T5",
    name="narrow-sum",
    language="triton",
    bug="a tl.sum of bf16 or fp16 adds in that type",
    remedy="sum .to(tl.float32), and round the result",
    check=_check,
)
