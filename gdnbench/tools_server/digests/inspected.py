"""Picks what a model needs of `inspect --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.tools_server.digests.rows import Row, Workloads, axes_between, cut_text, present
from gdnbench.tools_server.result import Digest

_ACCESSES = (" load ", " store ", "atomic", "async", "bulk", "wgmma", "tensor")
_NEW_NAMES = {
    "regs": "registers",
    "spills": "spill_bytes",
    "smem": "shared_bytes",
    "trips": "dependent_loads",
    "load_bits": "widest_load_bits",
}


def digest_inspected(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per build, or of changes with `--diff`; `more` is the call for the rows after `offset`."""
    pairs = [row for row in document if "after" in row]
    builds: list[Row] = [row["after"] for row in pairs] or document
    axes = axes_between(builds[0], "params", "arch") if builds else []
    workloads = Workloads(builds, axes)
    rows = [_pair(pair, workloads) for pair in pairs] or [_build(build, workloads) for build in builds]
    return Digest({**present(same_for_all=workloads.same), "builds": rows}, "builds", offset, more)


def _head(build: Row, workloads: Workloads) -> dict[str, Any]:
    return present(
        kernel=build["label"],
        launch=build.get("launch"),
        workload=workloads.tell(build),
        arch=build["arch"],
        status=build["status"],
        reason=cut_text(build.get("reason"), 500),
        breaks=build.get("breaks"),
    )


def _build(build: Row, workloads: Workloads) -> dict[str, Any]:
    if build.get("regs") is None:
        return _head(build, workloads)
    mix = build.get("mix") or {}
    accesses = {kind: count for kind, count in mix.items() if any(word in f" {kind} " for word in _ACCESSES)}
    return _head(build, workloads) | present(
        registers=build["regs"],
        spill_bytes=build["spills"],
        shared_bytes=build["smem"],
        threads=build["threads"],
        blocks_per_sm=build["blocks"],
        occupancy_pct=build["occupancy"],
        limited_by=build["limited_by"],
        grid=build["grid"],
        waves=build["waves"],
        instructions=build["instructions"],
        widest_load_bits=build["load_bits"],
        dependent_loads=build["trips"],
        serialized=cut_text(build.get("serialized_because")),
        loads_and_stores=accesses,
    )


def _pair(pair: Row, workloads: Workloads) -> dict[str, Any]:
    changes = {
        _NEW_NAMES.get(change["quantity"], change["quantity"]): [change["value_before"], change["value_after"]]
        for change in pair["changes"]
    }
    head = _head(pair["after"], workloads)
    return head | present(against=pair["before"]["label"], same_code=pair["same"], before_and_after=changes)
