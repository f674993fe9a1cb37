"""Picks what a model needs of `verify --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.tools_server.digests.rows import Row, Workloads, axes_between, cut_text, present
from gdnbench.tools_server.result import Digest

_MOST_GATES = 4


def digest_verified(document: Any) -> Digest:
    """Makes a row per case with its status and failed gates; failed cases come first."""
    gates: list[Row] = document["gates"]
    axes = axes_between(gates[0], "label", "interpreted") if gates else []
    workloads = Workloads(gates, axes)
    cases: dict[tuple[str, str], list[Row]] = {}
    for gate in gates:
        cases.setdefault((gate["label"], workloads.tell(gate)), []).append(gate)
    rows = [_case(label, workload, of_case) for (label, workload), of_case in cases.items()]
    rows.sort(key=lambda row: row["status"] == "ok")  # stable
    head = present(device=document.get("device"), seed=document.get("seed"), same_for_all=workloads.same)
    return Digest({**head, "cases": rows}, "cases", more="verify fewer kernels, or fewer workloads by shape")


def _case(label: str, workload: str, gates: Sequence[Row]) -> dict[str, Any]:
    failed = [gate for gate in gates if gate.get("passed") is False]
    worst = next((gate for gate in gates if gate["status"] != "ok"), gates[0])
    return present(
        kernel=label,
        workload=workload,
        status=worst["status"],
        interpreted=worst.get("interpreted") or None,
        reason=cut_text(worst.get("reason"), 400),
        notes=cut_text(worst.get("notes")),
        gates_passed=sum(bool(gate.get("passed")) for gate in gates),
        gates_failed=[_gate(gate) for gate in failed[:_MOST_GATES]],
        further_gates_failed=max(0, len(failed) - _MOST_GATES) or None,
    )


def _gate(gate: Row) -> dict[str, Any]:
    return present(
        gate=gate.get("gate"),
        inputs=gate.get("scenario"),
        error=gate.get("worst"),
        limit=gate.get("limit"),
        where=gate.get("where"),
        got=gate.get("got"),
        expected=gate.get("expected"),
        wrong=gate.get("wrong") or None,
        of=gate.get("of"),
        spread=gate.get("spread"),
    )
