"""An op author's hints on the causes that `gdnbench explain` finds."""

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
"""The names of the rules in `gdnbench/diagnose/rules/` to which a hint may belong."""

_LONGEST = 300  # characters: four lines of a terminal


@dataclass(frozen=True)
class Hint:
    """One or two sentences that `explain` prints below its findings on an op's kernels, in one line of text.

    `causes` names the rules of `CAUSES` whose findings the hint belongs to; without any it belongs to every finding.
    DeclarationError is raised for an unknown cause or an unfit text.
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
        """Whether the hint belongs to the findings of a rule."""
        return not self.causes or cause in self.causes
