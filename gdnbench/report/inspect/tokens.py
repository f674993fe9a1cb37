"""Estimates, from above and without a model's tokenizer, the tokens of a text."""

from __future__ import annotations

import re

DEFAULT_BUDGET = 2000
"""Default budget, in tokens, of a text for a model."""

_PIECES = re.compile(r"[A-Za-z]{1,3}|\d{1,2}|[^\sA-Za-z0-9]|\n")


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text of machine code.

    One token each: up to three letters in a row, up to two digits in a row, any other character, a line break. Spaces
    count with what they precede. Tokenizers join more in English, but not in opcodes and registers.
    """
    return len(_PIECES.findall(text))
