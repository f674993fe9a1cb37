"""T3 and T5: products and sums in a narrower type than it seems."""

from __future__ import annotations

from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import MatrixProduct, TensorSum


@lint_rule("T3", "dot-tf32", remedy='say input_precision="ieee", "tf32x3" or, where it is meant, "tf32"')
def dot_tf32(subject: TritonSubject) -> Places:
    """A tl.dot of fp32 operands without input_precision multiplies in TF32."""
    for _, event in subject.events():
        if isinstance(event, MatrixProduct) and not event.says_precision and event.left.dtype == "fp32":
            text = "tl.dot rounds its fp32 operands to TF32, of which 10 of 23 bits of fraction are left"
            yield subject.source.place(event.node), text


@lint_rule("T5", "narrow-sum", remedy="sum .to(tl.float32), and round the result")
def narrow_sum(subject: TritonSubject) -> Places:
    """A tl.sum of bf16 or fp16 adds in that type."""
    for _, event in subject.events():
        bits = {"bf16": 8, "fp16": 11}.get(event.summed.dtype) if isinstance(event, TensorSum) else None
        if isinstance(event, TensorSum) and bits and not any(each.arg == "dtype" for each in event.node.keywords):
            text = f"tl.sum adds in {event.summed.dtype}: each partial sum is rounded to {bits} bits"
            yield subject.source.place(event.node), text
