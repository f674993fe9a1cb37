"""Picks what a model needs of `lint --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import cut_text, present
from gdnbench.tools_server.result import Digest


def digest_findings(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per finding; `more` is the call for the rows after `offset`."""
    rows = [
        present(
            kernel=finding["kernel"],
            at=f"{finding['path']}:{finding['line']}",
            rule=finding["code"],
            message=cut_text(finding["message"], 300),
            remedy=cut_text(finding["remedy"], 300),
        )
        for finding in document["findings"]
    ]
    read = {"kernels": len(document["kernels"]), "files": len(document["files"]), "silenced": document["silenced"]}
    return Digest({"read": read, "findings": rows}, "findings", offset, more)
