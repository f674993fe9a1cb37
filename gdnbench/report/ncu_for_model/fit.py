"""Fits lines of facts, the most important first, into a budget of tokens, and says what was left out.

Each line keeps its first items, the same number in all; where three of each are still too much, whole lines go, the
least important first. What must be told stays in any case: a text that is over the budget then says by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.report.inspect.tokens import estimate_tokens

_MOST_ITEMS = (10**6, 8, 5, 3)  # of a line, from all of them to as few as say something
_MOST_TOKENS = 9_999_999  # of what the head has room for when its own tokens are counted


@dataclass(frozen=True)
class Line:
    """One line of facts.

    Attributes:
        name: what it is about, `stalls`; it stands before a colon.
        items: the facts, the largest or the most important first.
        unit: of all items, and what they are a share of; empty where each has its own.
        below: items that are too small to be told in any case.
        ranked: whether they stand by size, so that what is left out is smaller.
        required: whether it is told, and whole, however small the budget is.
    """

    name: str
    items: tuple[str, ...]
    unit: str = ""
    below: int = 0
    ranked: bool = True
    required: bool = False

    def text(self, most: int) -> str:
        """The line with so many items at most; what is left out is counted at its end."""
        shown = self.items if self.required else self.items[:most]
        left_out = len(self.items) - len(shown) + self.below
        more = f"; and {left_out} {'smaller' if self.ranked else 'more'}" if left_out else ""
        return f"{self.name}{f', {self.unit}' if self.unit else ''}: {'; '.join(shown)}{more}"


@dataclass(frozen=True)
class CounterView:
    """A text for a model.

    Attributes:
        text: what is printed.
        tokens: an estimate, see `estimate_tokens`.
        budget: tokens that were asked for.
        most: items that a line has at most; None where all that are there are whole.
        left_out: names of the lines that are not in it.
    """

    text: str
    tokens: int
    budget: int
    most: int | None
    left_out: tuple[str, ...]

    @property
    def excess(self) -> int:
        """Tokens over the budget; 0 where it fits."""
        return max(0, self.tokens - self.budget)


def fit(head: Sequence[str], lines: Sequence[Line], budget: int) -> CounterView:
    """The text that tells most within a budget of tokens; the shortest where none fits.

    Args:
        head: lines that come first, in any case.
        lines: what may be cut, the most important first.
        budget: in tokens.
    """
    lines = [line for line in lines if line.items]
    droppable = [line for line in reversed(lines) if not line.required]
    for most in _MOST_ITEMS:
        view = _view(head, lines, most, (), budget)
        if not view.excess:
            return view
    for count in range(1, len(droppable) + 1):
        view = _view(head, lines, _MOST_ITEMS[-1], droppable[:count], budget)
        if not view.excess:
            break
    return view


def _view(head: Sequence[str], lines: Sequence[Line], most: int, dropped: Sequence[Line], budget: int) -> CounterView:
    kept = [line for line in lines if line not in dropped]
    is_whole = all(line.required or len(line.items) <= most for line in kept)
    names = tuple(line.name for line in lines if line in dropped)
    shown = [f"// {_shown(most, is_whole=is_whole, left_out=names)}"]
    body = [line.text(most) for line in kept]
    # The head tells the estimate, which counts it: with the most digits it can have, so that it is none too low.
    tokens = estimate_tokens("\n".join([*head, _told(_MOST_TOKENS, budget), *shown, *body, ""]))
    text = "\n".join([*head, _told(tokens, budget), *shown, *body])
    return CounterView(text, tokens, budget, None if is_whole else most, names)


def _told(tokens: int, budget: int) -> str:
    over = f"; {tokens - budget:,} over, and nothing that must be told is left out" if tokens > budget else ""
    return f"// about {tokens:,} tokens of {budget:,}{over}"


def _shown(most: int, *, is_whole: bool, left_out: Sequence[str]) -> str:
    whole = "the largest first" if is_whole else f"the first {most} of each line, the largest first"
    return f"shown: {whole}; left out: {', '.join(left_out)}" if left_out else f"shown: {whole}"
