"""Picks what a model needs of `explain --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import Row, cut_text, present
from gdnbench.tools_server.result import Digest

_MOST_FACTS = 6
_MOST_HINTS = 2
_NOTHING = "no rule finds a cause that explains a twentieth of the time"


def digest_explained(document: Any) -> Digest:
    """Makes a row per finding, in order, with its evidence."""
    evidence = document.get("evidence") or {}
    run = evidence.get("run") or {}
    launches = [
        present(launch=launch.get("function") or launch.get("launch"), findings=_findings(launch))
        for launch in document.get("launches") or []
        if isinstance(launch, dict)
    ]
    fields = present(
        kernel=document["label"],
        gpu=evidence.get("gpu"),
        rests_on=present(profile=evidence.get("profile"), arch=evidence.get("arch"), run=run.get("run_id")),
        time_us=run.get("time_us"),
        could_save=document.get("gain"),
        launches=launches,
        warnings=[cut_text(text) for text in document.get("warnings") or []],
        found_nothing=None if document.get("findings") or launches else _NOTHING,
        next=document.get("next"),
    )
    return Digest({**fields, "findings": _findings(document)}, "findings", more="`gdnbench explain` in a shell")


def _findings(document: Row) -> list[dict[str, Any]]:
    return [
        present(
            cause=finding["title"],
            share_of_time=finding["share"],
            rests_on=finding["basis"],
            meaning=finding["meaning"],
            facts=[_fact(fact) for fact in finding["facts"][:_MOST_FACTS]],
            code=finding.get("code"),
            hints=[cut_text(hint, 300) for hint in finding["hints"][:_MOST_HINTS]],
            try_next=(finding.get("experiment") or {}).get("command"),
            because=(finding.get("experiment") or {}).get("why"),
        )
        for finding in document.get("findings") or []
    ]


def _fact(fact: Row) -> str:
    value = fact["value"]
    told = f"{value:.5g}" if isinstance(value, float) else str(value)
    return " ".join(filter(None, [f"{fact['title']}: {told}", fact["unit"], f"({cut_text(fact['note'], 80)})"]))
