"""T8: a `tl.arange` whose length is not a power of two."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import LaneRange


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for setting, event in subject.events():
        if isinstance(event, LaneRange) and (event.length < 1 or event.length & (event.length - 1)):
            yield (
                subject.source.place(event.node),
                f"tl.arange has {event.length} lanes, which is no power of two{at_words(setting)}",
            )


LANE_COUNT = LintRule(
    code="T8",
    name="lane-count",
    language="triton",
    bug="a tl.arange has a length that is no power of two, which does not compile",
    remedy="take the next power of two, triton.next_power_of_2(n), and mask what is beyond n",
    check=_check,
)
