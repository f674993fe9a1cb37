"""The text of a kernel's files as an entry keeps it, and what an entry changed in them; it needs no git."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codec import SchemaError, decode_json
from gdnbench.ledger.entry import LedgerEntry

LARGEST_BYTES = 2**24
"""Of all files together, as text; a damaged or hostile entry must not fill the memory."""

Files = Mapping[str, str]
"""Texts by path: `v10/kernel.cu` in the kernel's folder, `gdn.cuh` of another header, as it is included."""


def read_sources(entry: CatalogEntry) -> dict[str, str]:
    """The files that the kernel's source hash is made of; one that is no text, or cannot be read, is left out."""
    files = {}
    for name, path in entry.source_files():
        with suppress(OSError, UnicodeDecodeError):
            files[name] = path.read_bytes().decode()
    return files


def pack(files: Files) -> str:
    """The files as text of one line: JSON, deflated, in base64; empty where they are too large to be kept."""
    text = json.dumps(dict(files)).encode()
    return base64.b64encode(zlib.compress(text, 9)).decode() if len(text) <= LARGEST_BYTES else ""


def unpack(packed: str) -> dict[str, str]:
    """What `pack` was given; none for an empty text.

    Raises:
        SchemaError: if it was damaged.
    """
    if not packed:
        return {}
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(base64.b64decode(packed, validate=True), LARGEST_BYTES)
    except (zlib.error, binascii.Error) as error:
        raise SchemaError(f"sources: {error}") from error
    if not inflate.eof:
        raise SchemaError("sources: cut off, or larger than any that was kept")
    return decode_json(text, dict[str, str])


def difference(before: Files, after: Files, *, name: str) -> list[str]:
    """Lines of a unified diff; none where nothing changed.

    Args:
        before: the files when the entry was opened.
        after: at another time.
        name: of that time, before the paths: `now`.
    """
    lines: list[str] = []
    for path in sorted({*before, *after}):
        old, new = (files.get(path, "").splitlines() for files in (before, after))
        lines += unified_diff(old, new, f"then/{path}", f"{name}/{path}", lineterm="")
    return lines


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
