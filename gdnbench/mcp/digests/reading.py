"""Picks what a model needs of `list`, `compare`, `explain` and `inspect --json`."""

from __future__ import annotations

from typing import Any

from gdnbench.mcp.digests.runs import Row, Workloads, axes_between, cut_text, interval, present
from gdnbench.render.digest import Digest

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
            kernel_us=entry.get("kernel_us"),
            over_copy=entry.get("over_copy"),
            last_gpu=entry.get("last_gpu"),
            last_run=entry.get("last_run"),
        )
        for entry in document
    ]
    return Digest({"kernels": rows}, "kernels", offset, more)


def _param(param: Any) -> str:
    choices = param.get("choices") or []
    return f"{param['default']}" + (f" of {','.join(map(str, choices))}" if choices else "")
