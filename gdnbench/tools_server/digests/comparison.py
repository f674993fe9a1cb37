"""Picks what a model needs of `compare --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import cut_text, interval, present
from gdnbench.tools_server.result import Digest

_MOST_NOTES = 4


def digest_comparison(document: Any, offset: int) -> Digest:
    """Makes a row of ratio and verdict per case of the document, and leaves out the first `offset` rows."""
    sources = {source["name"]: source["letter"] for source in document["sources"]}
    several = len(document["columns"]) > 2
    overall = [
        present(
            column=entry["column"],
            cases=entry["cases"],
            geomean=entry["geomean"],
            interval=interval(entry, "geomean_lo", "geomean_hi"),
        )
        for entry in document["against_first"]
    ]
    rows = [
        present(
            kernel=case["label"],
            workload=case["shape"],
            of=case["b"] if several else None,
            ratio=case["ratio"],
            interval=interval(case, "ratio_lo", "ratio_hi"),
            verdict=case["verdict"],
            judged_by=case["judged_by"],
            first_us=case["time_a_us"],
            other_us=case["time_b_us"],
            status=None if {case["status_a"], case["status_b"]} <= {"ok", None} else case["status_b"],
        )
        for case in document["cases"]
    ]
    fields = present(
        columns=[f"{sources.get(name, '')} {name}".strip() for name in document["columns"]],
        ratio="time of the first / time of the other; above 1 the other is faster",
        margin=document["margin"],
        against_first=overall,
        gate=document["gate"],
        warnings=[cut_text(text) for text in document["warnings"][:_MOST_NOTES]],
        notes=[cut_text(text) for text in document["notes"][:_MOST_NOTES]],
    )
    more = "the same call with offset={offset}, or fewer cases by filter='kernel=decode-v4* B=1,8'"
    return Digest({**fields, "cases": rows}, "cases", offset, more)
