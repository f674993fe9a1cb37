"""`--filter 'kernel=decode-v4* B=1,8'`: which figures are shown."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from gdnbench.compare.keys import Entry, check_key
from gdnbench.errors import UsageError

OPTION = "--filter"


def choose(entries: Sequence[Entry], text: str) -> list[Entry]:
    """The figures that match every term; a term is a key, `=` and globs, any of which may match.

    Raises:
        UnknownNameError: for a key that these figures do not have.
        UsageError: for a term without a value, or where nothing matches.
    """
    chosen = list(entries)
    for term in text.split():
        key, equals, globs = term.partition("=")
        if not key or not equals or not globs:
            raise UsageError(f"{OPTION} {term!r} is no term", f"as in {OPTION} 'kernel=decode-v4* B=1,8'")
        check_key(OPTION, key, entries)
        before = list(dict.fromkeys(entry.value(key) for entry in chosen))
        chosen = [entry for entry in chosen if any(fnmatchcase(entry.value(key), glob) for glob in globs.split(","))]
        if not chosen:
            raise UsageError(f"{OPTION} {term} leaves nothing", f"{key} may be {some(before)}")
    return chosen


def some(values: Sequence[str], most: int = 12) -> str:
    """The first few of many."""
    told = ", ".join(value or "''" for value in values[:most])
    return told + (f" and {len(values) - most} more" if len(values) > most else "")
