"""Fits lines of facts, most important first, into a budget of tokens, and says what was left out.

Each line keeps its first items, the same number in all; if three of each are still too much, whole lines go, least
important first. Required lines always stay; a text over the budget says by how much.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_BUDGET = 2000
"""Default budget, in tokens, of a text for a model."""

_PIECES = re.compile(r"[A-Za-z]{1,3}|\d{1,2}|[^\sA-Za-z0-9]|\n")


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text of machine code.

    One token each: up to three letters in a row, up to two digits in a row, any other character, a line break. Spaces
    count with what they precede. Tokenizers join more in English, but not in opcodes and registers.
    """
    return len(_PIECES.findall(text))


_MOST_ITEMS = (10**6, 8, 5, 3)  # items per line, from all to as few as say something
MOST_TOKENS = 9_999_999  # reserves room in the head while its own tokens are counted


@dataclass(frozen=True)
class Line:
    """One line of facts, largest or most important first, behind its name and a colon.

    `unit` is that of all items, empty if each has its own. `below` counts items that are always too small to be shown.
    If `ranked`, items are ordered by size, so that what is left out is smaller. A `required` line is always shown in
    full.
    """

    name: str
    items: tuple[str, ...]
    unit: str = ""
    below: int = 0
    ranked: bool = True
    required: bool = False

    def text(self, most: int) -> str:
        """Returns the line with at most `most` items; the rest is counted at its end."""
        shown = self.items if self.required else self.items[:most]
        left_out = len(self.items) - len(shown) + self.below
        more = f"; and {left_out} {'smaller' if self.ranked else 'more'}" if left_out else ""
        return f"{self.name}{f', {self.unit}' if self.unit else ''}: {'; '.join(shown)}{more}"


@dataclass(frozen=True)
class CounterView:
    """A text for a model; `tokens` is an estimate, see `estimate_tokens`, and `budget` was requested.

    `most` is the most items per line, None if all lines present are whole; `left_out` names the other lines.
    """

    text: str
    tokens: int
    budget: int
    most: int | None
    left_out: tuple[str, ...]

    @property
    def excess(self) -> int:
        """Tokens over the budget, at least 0."""
        return max(0, self.tokens - self.budget)


def fit(head: Sequence[str], lines: Sequence[Line], budget: int) -> CounterView:
    """Returns `head` and as much of `lines`, most important first, as fits `budget` in tokens; else the shortest."""
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
    shown_lines = [line for line in lines if line not in dropped]
    is_whole = all(line.required or len(line.items) <= most for line in shown_lines)
    names = tuple(line.name for line in lines if line in dropped)
    shown = [f"// {_shown(most, is_whole=is_whole, left_out=names)}"]
    body = [line.text(most) for line in shown_lines]
    # The head holds the estimate, which includes the head: count it with the most digits, so that it is not too low.
    tokens = estimate_tokens("\n".join([*head, token_line(MOST_TOKENS, budget), *shown, *body, ""]))
    text = "\n".join([*head, token_line(tokens, budget), *shown, *body])
    return CounterView(text, tokens, budget, None if is_whole else most, names)


def token_line(tokens: int, budget: int) -> str:
    """Returns the line of a view that holds its estimated tokens, and says if required lines exceed the budget."""
    over = f"; {tokens - budget:,} over, and nothing that must be told is left out" if tokens > budget else ""
    return f"// about {tokens:,} tokens of {budget:,}{over}"


def _shown(most: int, *, is_whole: bool, left_out: Sequence[str]) -> str:
    whole = "the largest first" if is_whole else f"the first {most} of each line, the largest first"
    return f"shown: {whole}; left out: {', '.join(left_out)}" if left_out else f"shown: {whole}"
