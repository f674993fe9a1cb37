"""Picks what a model needs of each verb's JSON: a function per verb, from the printed document to a `Digest`."""

from __future__ import annotations

from typing import Any

from gdnbench.mcp.run_digests import MOST_WARNINGS, Row, RowFilter, Workloads, cut_text, digest_run, pick, present
from gdnbench.mcp.tool import Call, split_names
from gdnbench.render.digest import Digest

_MOST_GATES = 4
_MOST_FACTS = 6
_MOST_HINTS = 2


def digest_measured(document: Any, _call: Call) -> Digest:
    """Makes a row per case of a run or sweep."""
    return digest_run(document, RowFilter())


def digest_shown(document: Any, call: Call) -> Digest:
    """Makes a row per case of a stored run, of those that the call names."""
    kernels = tuple(split_names(call.values["kernel"], "kernel"))
    return digest_run(document, RowFilter(kernels, call.values["shape"], call.offset))


def digest_score(document: Any, _call: Call) -> Digest:
    """Leaves out what is in every result."""
    return Digest({name: value for name, value in document.items() if name not in {"exit_code", "means"}})


def digest_checks(document: Any, _call: Call) -> Digest:
    """Passes on the checks of `verify --ready`."""
    return Digest(document, "checks")


def digest_comparison(document: Any, call: Call) -> Digest:
    """Makes a row of ratio and verdict per case of the document."""
    sources = {source["name"]: source["letter"] for source in document["sources"]}
    several = len(document["columns"]) > 2
    rows = [
        present(
            **pick(case, "kernel=label workload=shape"),
            of=case["b"] if several else None,
            **pick(case, "ratio interval=ratio_lo..ratio_hi verdict judged_by first_us=time_a_us other_us=time_b_us"),
            status=None if {case["status_a"], case["status_b"]} <= {"ok", None} else case["status_b"],
        )
        for case in document["cases"]
    ]
    overall = "column cases geomean interval=geomean_lo..geomean_hi"
    fields = present(
        columns=[f"{sources.get(name, '')} {name}".strip() for name in document["columns"]],
        ratio="time of the first / time of the other; above 1 the other is faster",
        margin=document["margin"],
        against_first=[pick(entry, overall) for entry in document["against_first"]],
        gate=document["gate"],
        warnings=[cut_text(text) for text in document["warnings"][:MOST_WARNINGS]],
        notes=[cut_text(text) for text in document["notes"][:MOST_WARNINGS]],
    )
    more = "the same call with offset={offset}, or fewer cases by filter='kernel=decode-v4* B=1,8'"
    return Digest({**fields, "cases": rows}, "cases", call.offset, more)


def digest_explained(document: Any, _call: Call) -> Digest:
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
        rests_on=pick(evidence, "profile arch") | pick(run, "run=run_id"),
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
    " serialized=serialized_because~"
)
_QUANTITY_NAMES = {
    "regs": "registers",
    "spills": "spill_bytes",
    "smem": "shared_bytes",
    "trips": "dependent_loads",
    "load_bits": "widest_load_bits",
}


def digest_inspected(document: Any, call: Call) -> Digest:
    """Makes a row per build, or of changes with `--diff`; of machine code, a row per line."""
    if isinstance(document, str):
        return Digest({"code": document.splitlines()}, "code", call.offset, call.more)
    pairs = [row for row in document if "after" in row]
    builds: list[Row] = [row["after"] for row in pairs] or document
    workloads = Workloads.between(builds, "params", "arch")
    rows = [
        pick(
            {**build, "workload": workloads.format(build)}, "kernel=label launch workload arch status reason~500 breaks"
        )
        | (_changes(pairs[place]) if pairs else _build(build))
        for place, build in enumerate(builds)
    ]
    return Digest({**present(same_for_all=workloads.same), "builds": rows}, "builds", call.offset, call.more)


def _build(build: Row) -> dict[str, Any]:
    mix = build.get("mix") or {}
    accesses = {kind: mix[kind] for kind in mix if any(word in f" {kind} " for word in _ACCESSES)}
    return pick(build, _BUILD) | present(loads_and_stores=accesses)


def _changes(pair: Row) -> dict[str, Any]:
    changes = {
        _QUANTITY_NAMES.get(change["quantity"], change["quantity"]): [change["value_before"], change["value_after"]]
        for change in pair["changes"]
    }
    return present(against=pair["before"]["label"], same_code=pair["same"], before_and_after=changes)


def digest_counters(document: Any, call: Call) -> Digest:
    """Passes on the text of each function, or of what changed in each pair."""
    return Digest({"functions": document}, "functions", call.offset, call.more)


def digest_verified(document: Any, _call: Call) -> Digest:
    """Makes a row per case with its status and failed gates; failed cases come first."""
    gates: list[Row] = document["gates"]
    workloads = Workloads.between(gates, "label", "interpreted")
    cases: dict[tuple[str, str], list[Row]] = {}
    for gate in gates:
        cases.setdefault((gate["label"], workloads.format(gate)), []).append(gate)
    rows = []
    for (label, workload), own in cases.items():
        failed = [{**gate, "wrong": gate.get("wrong") or None} for gate in own if gate.get("passed") is False]
        numbers = "gate inputs=scenario error=worst limit where got expected wrong of spread"
        worst = next((gate for gate in own if gate["status"] != "ok"), own[0])
        rows.append(
            present(
                kernel=label,
                workload=workload,
                status=worst["status"],
                interpreted=worst.get("interpreted") or None,
                **pick(worst, "reason~400 notes~"),
                gates_passed=sum(bool(gate.get("passed")) for gate in own),
                gates_failed=[pick(gate, numbers) for gate in failed[:_MOST_GATES]],
                further_gates_failed=max(0, len(failed) - _MOST_GATES) or None,
            )
        )
    rows.sort(key=lambda row: row["status"] == "ok")  # stable
    head = present(**pick(document, "device seed"), same_for_all=workloads.same)
    return Digest({**head, "cases": rows}, "cases", more="verify fewer kernels, or fewer workloads by shape")


def digest_kernels(document: Any, call: Call) -> Digest:
    """Makes a row per kernel."""
    rows = [
        present(
            **pick(entry, "kernel op language"),
            status=None if entry["status"] == "ok" else entry["status"],
            **pick(entry, "reason~ idea~120"),
            params={name: _param(param) for name, param in entry["params"].items()},
            presets=list(entry["presets"]),
            **pick(entry, "kernel_us over_copy last_gpu last_run"),
        )
        for entry in document
    ]
    return Digest({"kernels": rows}, "kernels", call.offset, call.more)


def _param(param: Any) -> str:
    choices = param.get("choices") or []
    return f"{param['default']}" + (f" of {','.join(map(str, choices))}" if choices else "")


def digest_findings(document: Any, call: Call) -> Digest:
    """Makes a row per finding of lint."""
    rows = [
        pick({**finding, "at": f"{finding['path']}:{finding['line']}"}, "kernel at rule=code message~300 remedy~300")
        for finding in document["findings"]
    ]
    read = {"kernels": len(document["kernels"]), "files": len(document["files"]), "silenced": document["silenced"]}
    return Digest({"read": read, "findings": rows}, "findings", call.offset, call.more)


def digest_ledger(document: Any, call: Call) -> Digest:
    """Makes a row per entry, oldest first, or one entry with the printed change of its sources, line by line."""
    if "entries" in document:
        entries = [_entry(entry, 200) for entry in document["entries"]]
        return Digest({"entries": entries}, "entries", call.offset, call.more)
    change = present(change=str(document.get("diff") or "").splitlines())
    return Digest({"entry": _entry(document, 500), **change}, "change", call.offset, call.more)


def _entry(entry: Row, longest: int) -> dict[str, Any]:
    last = entry["closings"][-1] if entry["closings"] else {}
    return present(
        **pick(entry, f"entry=id kernel=label hypothesis~{longest}"),
        expected=[each["text"] for each in entry["expectations"]],
        **pick(entry, f"stop~{longest}"),
        after=entry["after"] or None,
        gate=None if entry["gate"] == "go" else entry["gate"],
        state=entry["state"],
        run=last.get("run"),
        measured=[pick(each, "outcome value interval=low:high reason~") for each in last.get("findings", ())],
        **pick(last, f"learned~{longest}"),
        notes=[cut_text(note) for note in last.get("notes", ())],
    )
