"""What a run tells whoever watches it; every hook does nothing unless overridden."""

from __future__ import annotations

from gdnbench.bench.events import Examined
from gdnbench.model import Case


class Observer:
    """Hooks of a run, in the order in which they are called."""

    def begin(self, phase: str, total: int) -> None:
        """A phase of so many units begins: `build`, `check`, `interpret`, `measure`, `coarse`, `race` or `profile`."""

    def step(self, what: str) -> None:
        """Something is under way, in a few words."""

    def advance(self) -> None:
        """One unit of the phase is done."""

    def standing(self, text: str) -> None:
        """How a race stands, in a few words."""

    def examined(self, case: Case, result: Examined) -> None:
        """A case passed or failed its preflight."""

    def note(self, text: str) -> None:
        """Something that the user should know."""
