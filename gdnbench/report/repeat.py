"""The command that checks a case again on the very inputs on which it failed."""

from __future__ import annotations

from gdnbench.model import Case, Shape


def repeat_words(case: Case, seed: int) -> list[str]:
    """`gdnbench verify decode-x --shape B=3 --seed 7`.

    Args:
        case: what failed.
        seed: of the inputs, as `verify` or `run` had it.
    """
    shape = case.shape
    heads = [] if shape.heads == Shape().heads else ["--heads", shape.heads]
    return ["gdnbench", "verify", case.label, "--shape", f"B={shape.B}", *heads, "--seed", str(seed)]
