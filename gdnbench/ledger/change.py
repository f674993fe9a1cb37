"""What an entry changed in its kernel's sources: up to the run that closed it, else up to now."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.ledger.entry import LedgerEntry
from gdnbench.ledger.sources import difference, read_sources, unpack


@dataclass(frozen=True)
class Change:
    """A difference of sources.

    Attributes:
        lines: of a unified diff; none where nothing changed, or nothing can be compared.
        note: what is to be said of it, or why there is none; empty for a plain difference.
    """

    lines: tuple[str, ...] = ()
    note: str = ""


def change_of(entry: LedgerEntry, current: CatalogEntry | None) -> Change:
    """What changed since the entry was opened.

    Args:
        entry: the entry.
        current: its kernel as it is now; None where it is gone.
    """
    kernel = entry.opened.kernel
    before = unpack(entry.opened.sources)
    measured = unpack(entry.last.sources) if entry.last else {}
    now = read_sources(current) if current else {}
    if not before:
        return Change(note=f"no difference can be shown: {kernel} was too large to be kept")
    if measured:
        lines = difference(before, measured, name="measured")
        if not lines:
            return Change(note=f"{kernel} was measured as it was when the entry was opened")
        changed_since = f"{kernel} has changed since it was measured" if now and now != measured else ""
        return Change(tuple(lines), note=changed_since)
    if not now:
        return Change(note=f"no difference can be shown: {kernel} is not there any more")
    lines = difference(before, now, name="now")
    return Change(tuple(lines), note="" if lines else f"{kernel} is as it was when the entry was opened")
