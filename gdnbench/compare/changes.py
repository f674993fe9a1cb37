"""What changed from one stored run to another beside the time of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.compare.figure import Figure
from gdnbench.compare.recorded import Recorded

CARD = "card"
SOURCE = "source"
PARAMS = "params"
METHOD = "method"
ANCHOR = "anchor"

_PLAIN = {"False": "default", "True": "plain", "": "of an older kind"}
_NOT_CAUSES = frozenset({"GPU", "plain", "commit", "samples"})  # told in other words, or no cause of a step


@dataclass(frozen=True)
class Change:
    """One thing as it was and as it is; empty where it was not known."""

    before: str
    after: str


def changes_between(
    before: tuple[Recorded, Figure], after: tuple[Recorded, Figure], anchor: str = ""
) -> dict[str, Change]:
    """What changed, by name: `source`, `params`, `method`, `anchor`, `card`, and versions of what compiles and runs.

    Args:
        before: the earlier run, and the kernel in it.
        after: the later run.
        anchor: the label whose sources count as `anchor`.
    """
    (run, figure), (later, now) = before, after
    known = {
        SOURCE: Change(figure.source_hash, now.source_hash),
        PARAMS: Change(str(figure.params), str(now.params)),
        METHOD: Change(method_of(run, figure), method_of(later, now)),
        ANCHOR: Change(_source_of(run, anchor), _source_of(later, anchor)),
        CARD: Change(card_of(run), card_of(later)),
        **_conditions(run.source.conditions, later.source.conditions),
    }
    return {name: change for name, change in known.items() if _differs(name, change)}


def _differs(name: str, change: Change) -> bool:
    """What one of the two runs does not say is no change; having no params says something."""
    known = name == PARAMS or (change.before and change.after)
    return bool(known) and change.before != change.after


def same_method(before: Recorded, old: Figure, after: Recorded, new: Figure) -> bool:
    """Whether two runs measured in the same way, so that a change between them is not the method's."""
    return method_of(before, old) == method_of(after, new)


def unchanged(before: Recorded, old: Figure, after: Recorded, new: Figure) -> bool:
    """Whether a kernel is the same in both, as far as is known, and measured in the same way."""
    same_kernel = (old.source_hash, old.params) == (new.source_hash, new.params)
    return same_kernel and same_method(before, old, after, new)


def method_of(run: Recorded, figure: Figure) -> str:
    """How a time was measured: `nvbench`, with what it was measured without."""
    if not figure.timer:
        return ""
    if figure.timer != "nvbench":
        return figure.timer
    return _PLAIN.get(run.source.conditions.get("plain", ""), "default")


def card_of(run: Recorded) -> str:
    """The first eight digits of the card's UUID; empty where unknown."""
    return run.source.conditions.get("GPU", "").removeprefix("GPU-")[:8]


def _source_of(run: Recorded, label: str) -> str:
    return next((figure.source_hash for figure in run.figures if figure.label == label), "")


def _conditions(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Change]:
    names = [name for name in dict.fromkeys([*before, *after]) if name not in _NOT_CAUSES]
    return {name: Change(before.get(name, ""), after.get(name, "")) for name in names}
