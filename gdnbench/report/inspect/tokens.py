"""How many tokens of a language model a text takes: an estimate from above, without a model's tokenizer."""

from __future__ import annotations

import re

DEFAULT_BUDGET = 2000
"""Tokens that a text for a model may take where no other number is given."""

_PIECES = re.compile(r"[A-Za-z]{1,3}|\d{1,2}|[^\sA-Za-z0-9]|\n")


def estimate_tokens(text: str) -> int:
    """How many tokens a text of machine code takes.

    A token each: up to three letters in a row, up to two digits in a row, any other character, a line break. Spaces
    count with what they precede. Tokenizers join more than that of English, and not of opcodes and registers.
    """
    return len(_PIECES.findall(text))
