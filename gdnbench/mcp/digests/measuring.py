"""Picks what a model needs of `ncu`, `verify`, `lint`, `try` and `ledger --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdnbench.mcp.digests.runs import Row, Workloads, axes_between, cut_text, pair, present
from gdnbench.render.digest import Digest

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
