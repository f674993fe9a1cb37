"""Picks what a model needs of `ncu --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import Row, Workloads, axes_between, present
from gdnbench.tools_server.result import Digest

_MOST_STALLS = 6


def digest_counters(document: Any, offset: int) -> Digest:
    """Makes a row of counters per function, or of changes with `--diff`; leaves out the first `offset` rows."""
    pairs = [row for row in document if "after" in row]
    functions: list[Row] = [row["after"] for row in pairs] or document
    workloads = Workloads(functions, axes_between(functions[0], "op", "gpu") if functions else [])
    rows = [_pair(pair, workloads) for pair in pairs] or [_function(function, workloads) for function in functions]
    fields = {**present(same_for_all=workloads.same), "functions": rows}
    return Digest(fields, "functions", offset, "the same call with offset={offset}, or fewer kernels")


def _head(function: Row, workloads: Workloads) -> dict[str, Any]:
    return present(
        kernel=function.get("kernel"),
        workload=workloads.tell(function),
        gpu=function["gpu"],
        function=function["function"],
        code=function["code"],
        report=function["report"],
    )


def _function(function: Row, workloads: Workloads) -> dict[str, Any]:
    stalls = sorted((function.get("stalls") or {}).items(), key=lambda stall: -(stall[1] or 0))
    return _head(function, workloads) | present(
        quantities={name: value for name, value in function["quantities"].items() if value is not None},
        stalls_cycles_per_instruction=dict(stalls[:_MOST_STALLS]),
    )


def _pair(pair: Row, workloads: Workloads) -> dict[str, Any]:
    moves = {
        move["quantity"]: [move["before"], move["after"], *filter(None, [move["verdict"]])] for move in pair["moves"]
    }
    head = _head(pair["after"], workloads)
    return head | present(against=pair["before"].get("kernel"), before_after_verdict=moves)
