"""Picks what a model needs of `list --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import cut_text, present
from gdnbench.tools_server.result import Digest


def digest_kernels(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per kernel; `more` is the call for the rows after `offset`."""
    rows = [
        present(
            kernel=entry["kernel"],
            op=entry["op"],
            language=entry["language"],
            status=None if entry["status"] == "ok" else entry["status"],
            reason=cut_text(entry["reason"]),
            idea=cut_text(entry["idea"], 120),
            params={name: _param(param) for name, param in entry["params"].items()},
            presets=list(entry["presets"]),
            last_time_us=entry.get("last_time_us"),
            last_gpu=entry.get("last_gpu"),
        )
        for entry in document
    ]
    return Digest({"kernels": rows}, "kernels", offset, more)


def _param(param: Any) -> str:
    choices = param.get("choices") or []
    return f"{param['default']}" + (f" of {','.join(map(str, choices))}" if choices else "")
