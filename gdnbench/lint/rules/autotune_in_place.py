"""T7: an `@triton.autotune` of a function that updates a tensor in place."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.triton_source import updated_in_place
from gdnbench.lint.triton_subject import TritonSubject


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for function in subject.source.functions.values():
        tuned = function.autotune
        if tuned is None or tuned.kept is None:
            continue
        for name in updated_in_place(function):
            if name not in tuned.kept:
                yield (
                    subject.source.place(tuned.node),
                    f"{function.node.name} updates {name} in place, and tuning runs it again and again on the result",
                )


AUTOTUNE_IN_PLACE = LintRule(
    code="T7",
    name="autotune-in-place",
    language="triton",
    bug="an @triton.autotune runs a function that updates a tensor in place, and does not restore the tensor",
    remedy="name the tensor in restore_value, or in reset_to_zero where it starts from zero",
    check=_check,
)
