"""Spellings that were removed or renamed, and what to type now."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.errors import UnknownNameError

MOVED = {
    "project": "",
    "cache": "runs cache",
    "calibrate": "doctor --calibrate",
    "contest": "show --contest",
    "export": "exchange export",
    "import": "exchange import",
    "merge": "runs merge",
    "nsys": "ncu --timeline",
    "phases": "proton",
    "plot": "show --chart",
    "ready": "verify --ready",
    "show --plot": "show --chart sweep --output",
    "try": "ledger add",
    "watch": "score --watch",
}
"""By the old spelling, the words that do the same now; empty where nothing does."""


def check_moved(args: Sequence[str]) -> None:
    """Refuses a command line with a verb, or an option of one, that was removed or renamed.

    Raises:
        UnknownNameError: with what to type now.
    """
    options = (f"{args[0]} {word.partition('=')[0]}" for word in args[1:])
    old = next((word for word in (args[0], *options) if word in MOVED), None)
    if old is None:
        return
    if now := MOVED[old]:
        verb = now.partition(" --")[0]
        raise UnknownNameError(f"gdnbench {old} is now gdnbench {now}", f"see gdnbench {verb} --help")
    raise UnknownNameError(f"gdnbench {old} was removed", "gdnbench --help lists the verbs that there are")
