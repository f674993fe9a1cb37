"""Picks what a model needs of `try --json` and `ledger --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdnbench.tools_server.digests.rows import Row, cut_text, pair, present
from gdnbench.tools_server.result import Digest

_OPEN_GATE = "go"


def digest_entries(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per entry, oldest first; `more` is the call for the rows after `offset`."""
    return Digest({"entries": [_entry(entry, 200) for entry in document["entries"]]}, "entries", offset, more)


def digest_entry(document: Any, offset: int = 0, more: str = "") -> Digest:
    """Makes one entry, with the printed change of its sources; `more` is the call for the lines after `offset`."""
    change = present(change=str(document.get("diff") or "").splitlines())
    return Digest({"entry": _entry(document, 500), **change}, "change", offset, more)


def _entry(entry: Mapping[str, Any], longest: int) -> dict[str, Any]:
    last = entry["closings"][-1] if entry["closings"] else {}
    return present(
        entry=entry["id"],
        kernel=entry["label"],
        hypothesis=cut_text(entry["hypothesis"], longest),
        expected=[each["text"] for each in entry["expectations"]],
        stop=cut_text(entry["stop"], longest),
        after=entry["after"] or None,
        gate=None if entry["gate"] == _OPEN_GATE else entry["gate"],
        state=entry["state"],
        run=last.get("run"),
        measured=[_finding(each) for each in last.get("findings", ())],
        learned=cut_text(last.get("learned"), longest),
        notes=[cut_text(note) for note in last.get("notes", ())],
    )


def _finding(finding: Row) -> dict[str, Any]:
    return present(
        outcome=finding["outcome"],
        value=finding["value"],
        interval=pair(finding, "low", "high"),
        reason=cut_text(finding["reason"]),
    )
