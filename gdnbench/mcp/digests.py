"""Picks what a model needs of each verb's JSON: a function per verb, from the printed document to a `Digest`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.mcp.result import Digest
from gdnbench.mcp.run_digests import MOST_WARNINGS, Row, Workloads, cut_text, interval, pair, pick, present

_MOST_STALLS = 6
_MOST_GATES = 4
_MOST_FACTS = 6
_MOST_HINTS = 2


def digest_comparison(document: Any, offset: int) -> Digest:
    """Makes a row of ratio and verdict per case of the document."""
    sources = {source["name"]: source["letter"] for source in document["sources"]}
    several = len(document["columns"]) > 2
    overall = [
        present(**pick(entry, "column cases geomean"), interval=interval(entry, "geomean_lo", "geomean_hi"))
        for entry in document["against_first"]
    ]
    rows = [
        present(
            **pick(case, "kernel=label workload=shape"),
            of=case["b"] if several else None,
            ratio=case["ratio"],
            interval=interval(case, "ratio_lo", "ratio_hi"),
            **pick(case, "verdict judged_by first_us=time_a_us other_us=time_b_us"),
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
        warnings=[cut_text(text) for text in document["warnings"][:MOST_WARNINGS]],
        notes=[cut_text(text) for text in document["notes"][:MOST_WARNINGS]],
    )
    more = "the same call with offset={offset}, or fewer cases by filter='kernel=decode-v4* B=1,8'"
    return Digest({**fields, "cases": rows}, "cases", offset, more)


def digest_explained(document: Any) -> Digest:
    """Makes a row per finding, in order, with its evidence."""
    evidence = document.get("evidence") or {}
    run = evidence.get("run") or {}
    launches = [
        present(launch=launch.get("function") or launch.get("launch"), findings=_causes(launch))
        for launch in document.get("launches") or []
        if isinstance(launch, dict)
    ]
    has_cause = document.get("findings") or launches
    fields = present(
        kernel=document["label"],
        gpu=evidence.get("gpu"),
        rests_on=present(**pick(evidence, "profile arch"), run=run.get("run_id")),
        time_us=run.get("time_us"),
        could_save=document.get("gain"),
        launches=launches,
        warnings=[cut_text(text) for text in document.get("warnings") or []],
        found_nothing=None if has_cause else "no rule finds a cause that explains a twentieth of the time",
        next=document.get("next"),
    )
    return Digest({**fields, "findings": _causes(document)}, "findings", more="`gdnbench explain` in a shell")


def _causes(document: Row) -> list[dict[str, Any]]:
    return [
        present(
            **pick(finding, "cause=title share_of_time=share rests_on=basis meaning"),
            facts=[_fact(fact) for fact in finding["facts"][:_MOST_FACTS]],
            code=finding.get("code"),
            hints=[cut_text(hint, 300) for hint in finding["hints"][:_MOST_HINTS]],
            **pick(finding.get("experiment") or {}, "try_next=command because=why"),
        )
        for finding in document.get("findings") or []
    ]


def _fact(fact: Row) -> str:
    value = fact["value"]
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return " ".join(filter(None, [f"{fact['title']}: {text}", fact["unit"], f"({cut_text(fact['note'], 80)})"]))


_ACCESSES = (" load ", " store ", "atomic", "async", "bulk", "wgmma", "tensor")
_BUILD = (
    "registers=regs spill_bytes=spills shared_bytes=smem threads blocks_per_sm=blocks occupancy_pct=occupancy"
    " limited_by grid waves instructions widest_load_bits=load_bits dependent_loads=trips"
)
_QUANTITY_NAMES = {
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
    workloads = Workloads.between(builds, "params", "arch")
    rows = [
        _build_head(build, workloads) | (_changes(pairs[place]) if pairs else _build(build))
        for place, build in enumerate(builds)
    ]
    return Digest({**present(same_for_all=workloads.same), "builds": rows}, "builds", offset, more)


def _build_head(build: Row, workloads: Workloads) -> dict[str, Any]:
    return present(
        **pick(build, "kernel=label launch"),
        workload=workloads.format(build),
        **pick(build, "arch status"),
        reason=cut_text(build.get("reason"), 500),
        breaks=build.get("breaks"),
    )


def _build(build: Row) -> dict[str, Any]:
    mix = build.get("mix") or {}
    return pick(build, _BUILD) | present(
        serialized=cut_text(build.get("serialized_because")),
        loads_and_stores={kind: mix[kind] for kind in mix if any(word in f" {kind} " for word in _ACCESSES)},
    )


def _changes(pair: Row) -> dict[str, Any]:
    changes = {
        _QUANTITY_NAMES.get(change["quantity"], change["quantity"]): [change["value_before"], change["value_after"]]
        for change in pair["changes"]
    }
    return present(against=pair["before"]["label"], same_code=pair["same"], before_and_after=changes)


def digest_counters(document: Any, offset: int) -> Digest:
    """Makes a row of counters per function, or of changes with `--diff`."""
    pairs = [row for row in document if "after" in row]
    functions: list[Row] = [row["after"] for row in pairs] or document
    workloads = Workloads.between(functions, "op", "gpu")
    rows = [
        present(kernel=function.get("kernel"), workload=workloads.format(function))
        | pick(function, "gpu function code report")
        | (_moves(pairs[place]) if pairs else _counters(function))
        for place, function in enumerate(functions)
    ]
    fields = {**present(same_for_all=workloads.same), "functions": rows}
    return Digest(fields, "functions", offset, "the same call with offset={offset}, or fewer kernels")


def _counters(function: Row) -> dict[str, Any]:
    stalls = sorted((function.get("stalls") or {}).items(), key=lambda stall: -(stall[1] or 0))
    return present(
        quantities=present(**function["quantities"]), stalls_cycles_per_instruction=dict(stalls[:_MOST_STALLS])
    )


def _moves(pair: Row) -> dict[str, Any]:
    moves = {
        move["quantity"]: [move["before"], move["after"], *filter(None, [move["verdict"]])] for move in pair["moves"]
    }
    return present(against=pair["before"].get("kernel"), before_after_verdict=moves)


def digest_verified(document: Any) -> Digest:
    """Makes a row per case with its status and failed gates; failed cases come first."""
    gates: list[Row] = document["gates"]
    workloads = Workloads.between(gates, "label", "interpreted")
    cases: dict[tuple[str, str], list[Row]] = {}
    for gate in gates:
        cases.setdefault((gate["label"], workloads.format(gate)), []).append(gate)
    rows = [_checked(label, workload, of_case) for (label, workload), of_case in cases.items()]
    rows.sort(key=lambda row: row["status"] == "ok")  # stable
    head = present(**pick(document, "device seed"), same_for_all=workloads.same)
    return Digest({**head, "cases": rows}, "cases", more="verify fewer kernels, or fewer workloads by shape")


def _checked(label: str, workload: str, gates: Sequence[Row]) -> dict[str, Any]:
    failed = [gate for gate in gates if gate.get("passed") is False]
    worst = next((gate for gate in gates if gate["status"] != "ok"), gates[0])
    numbers = "gate inputs=scenario error=worst limit where got expected wrong of spread"
    return present(
        kernel=label,
        workload=workload,
        status=worst["status"],
        interpreted=worst.get("interpreted") or None,
        reason=cut_text(worst.get("reason"), 400),
        notes=cut_text(worst.get("notes")),
        gates_passed=sum(bool(gate.get("passed")) for gate in gates),
        gates_failed=[pick({**gate, "wrong": gate.get("wrong") or None}, numbers) for gate in failed[:_MOST_GATES]],
        further_gates_failed=max(0, len(failed) - _MOST_GATES) or None,
    )


def digest_kernels(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per kernel; `more` is the call for the rows after `offset`."""
    rows = [
        present(
            **pick(entry, "kernel op language"),
            status=None if entry["status"] == "ok" else entry["status"],
            reason=cut_text(entry["reason"]),
            idea=cut_text(entry["idea"], 120),
            params={name: _param(param) for name, param in entry["params"].items()},
            presets=list(entry["presets"]),
            **pick(entry, "kernel_us over_copy last_gpu last_run"),
        )
        for entry in document
    ]
    return Digest({"kernels": rows}, "kernels", offset, more)


def _param(param: Any) -> str:
    choices = param.get("choices") or []
    return f"{param['default']}" + (f" of {','.join(map(str, choices))}" if choices else "")


def digest_findings(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per finding of lint; `more` is the call for the rows after `offset`."""
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


def digest_ledger(document: Any, offset: int, more: str) -> Digest:
    """Makes a row per entry, oldest first, or one entry with the printed change of its sources, line by line."""
    if "entries" in document:
        return Digest({"entries": [_entry(entry, 200) for entry in document["entries"]]}, "entries", offset, more)
    change = present(change=str(document.get("diff") or "").splitlines())
    return Digest({"entry": _entry(document, 500), **change}, "change", offset, more)


def _entry(entry: Row, longest: int) -> dict[str, Any]:
    last = entry["closings"][-1] if entry["closings"] else {}
    return present(
        **pick(entry, "entry=id kernel=label"),
        hypothesis=cut_text(entry["hypothesis"], longest),
        expected=[each["text"] for each in entry["expectations"]],
        stop=cut_text(entry["stop"], longest),
        after=entry["after"] or None,
        gate=None if entry["gate"] == "go" else entry["gate"],
        state=entry["state"],
        run=last.get("run"),
        measured=[
            present(**pick(each, "outcome value"), interval=pair(each, "low", "high"), reason=cut_text(each["reason"]))
            for each in last.get("findings", ())
        ],
        learned=cut_text(last.get("learned"), longest),
        notes=[cut_text(note) for note in last.get("notes", ())],
    )
