"""Valid names of ops, kernels and presets, which become parts of labels, folder names and columns."""

from __future__ import annotations

import re

from gdnbench.errors import DeclarationError

EVERY = "all"
"""The word for every kernel, or profile, on the command line."""

MOST_CHARACTERS = 80
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def check_name(name: str) -> None:
    """Raises DeclarationError for a name that is not valid."""
    if name == EVERY:
        raise DeclarationError(f"the name {EVERY!r} means all that there are; choose another")
    if len(name) > MOST_CHARACTERS:
        told = f"the name {name[:40]!r}… has {len(name)} characters, and {MOST_CHARACTERS} are the most"
        raise DeclarationError(told, "choose a shorter one")
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"the name {name[:80]!r} is not made of letters, digits and . _ + -, a letter or digit first"
        )
