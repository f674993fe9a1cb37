"""Verbs that were removed or renamed, and what to type now."""

from __future__ import annotations

from gdnbench.errors import UnknownNameError

MOVED = {"project": ""}
"""By the old verb, the words that do the same now; empty where nothing does."""


def check_moved(word: str) -> None:
    """Refuses a verb that was removed or renamed.

    Raises:
        UnknownNameError: with what to type now.
    """
    if word not in MOVED:
        return
    if now := MOVED[word]:
        raise UnknownNameError(f"gdnbench {word} is now gdnbench {now}", f"see gdnbench {now} --help")
    raise UnknownNameError(f"gdnbench {word} was removed", "gdnbench --help lists the verbs that there are")
