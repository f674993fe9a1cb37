"""What an op's author knows about the causes that `gdnbench explain` finds."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.errors import DeclarationError

CAUSES = (
    "too_few_warps",
    "many_launches",
    "latency",
    "idle_sms",
    "uneven_sms",
    "limited_occupancy",
    "bandwidth",
    "compute",
    "launch_bound",
    "spilling",
    "uncoalesced",
    "bank_conflicts",
    "barriers",
    "narrow_loads",
    "lowered_clock",
)
"""The names of the rules in `gdnbench/diagnose/rules/`, by which a hint says what it is about."""

_LONGEST = 300  # characters: four lines of a terminal


@dataclass(frozen=True)
class Hint:
    """A sentence or two that `explain` prints below its findings on an op's kernels.

    Attributes:
        text: what is known of this op, in one line.
        causes: the rules whose findings it belongs to, of `CAUSES`; every finding where none is named.

    Raises:
        DeclarationError: for a cause that is none, or a text that is no short line.
    """

    text: str
    causes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        causes = (self.causes,) if isinstance(self.causes, str) else tuple(self.causes)
        object.__setattr__(self, "causes", causes)
        if not self.text.strip() or len(self.text) > _LONGEST or not self.text.isprintable():
            raise DeclarationError(f"the hint {self.text[:40]!r} is no line of 1 to {_LONGEST} characters")
        if unknown := [cause for cause in causes if cause not in CAUSES]:
            raise DeclarationError(f"explain has no rule {', '.join(map(str, unknown))}: {', '.join(CAUSES)}")

    def is_about(self, cause: str) -> bool:
        """Whether it belongs to the findings of a rule."""
        return not self.causes or cause in self.causes
