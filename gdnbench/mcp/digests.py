"""Picks what a model needs of each verb's JSON: a function per verb, from the printed document to a `Digest`.

Fields keep their names in the JSON. What all rows have alike stands once, under `same_for_all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.mcp.tool import Call, call_of, split_names
from gdnbench.model.measurement import INPUTS_MARGIN
from gdnbench.model.status import CLOCKS
from gdnbench.render.digest import Digest

Row = Mapping[str, Any]

_LONGEST = 300  # characters of a text, of which the first line is told
_MOST_WARNINGS = 4
_MOST_GATES = 4
_MOST_FACTS = 6
_MOST_TIED = 8


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value: no None, no empty text, list or table; a text is cut to its first line."""
    return {name: _cut(value) for name, value in fields.items() if value is not None and value not in ("", [], {})}


def pick(row: Row, names: str, *more: str) -> dict[str, Any]:
    """Returns the named fields of a row that have a value."""
    return present(**{name: row.get(name) for name in (*names.split(), *more)})


def _cut(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    first = value.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"


def _texts(*lists: Sequence[str] | None) -> list[str]:
    return [_cut(text) for texts in lists for text in texts or ()][:_MOST_WARNINGS]


def _axes(rows: Sequence[Row], before: str, after: str) -> list[str]:
    """Returns the axes of rows: they are the columns between two others."""
    names = list(rows[0]) if rows else []
    return names[names.index(before) + 1 : names.index(after)] if {before, after} <= set(names) else []


def _digest(name: str, rows: Sequence[Row], head: Row, offset: int = 0, more: str = "") -> Digest:
    """Makes the digest of rows under a name; `head` comes first, and what all rows share but the name."""
    shared = dict(list(rows[0].items())[1:]) if len(rows) > 1 else {}
    for row in rows:
        shared = {key: value for key, value in shared.items() if key in row and row[key] == value}
    own = [{key: value for key, value in row.items() if key not in shared} for row in rows]
    return Digest({**head, **present(same_for_all=shared), name: own}, name, offset, more)


def passed_on(rows: str) -> Callable[[Any, Call], Digest]:
    """Makes the digest of a verb whose document is for models as it stands; `rows` names the rows."""

    def digest(document: Any, call: Call) -> Digest:
        return Digest(document if isinstance(document, dict) else {rows: document}, rows, call.offset, call.more)

    return digest


def digest_comparison(document: Any, call: Call) -> Digest:
    """Makes a row of ratio and verdict per case of the document."""
    columns = document["columns"]
    names = "label shape b ratio ratio_lo ratio_hi verdict judged_by time_a_us time_b_us status_a status_b"
    rows = [pick(case, names) for case in document["cases"]]
    overall = "column cases geomean geomean_lo geomean_hi"
    head = present(
        columns=columns,
        margin=document["margin"],
        against_first=[pick(entry, overall) for entry in document["against_first"]],
        gate=document["gate"],
        warnings=_texts(document["warnings"]),
        notes=_texts(document["notes"]),
    )
    more = "the same call with offset={offset}, or fewer cases by filter='kernel=decode-v4* B=1,8'"
    return _digest("cases", rows, head, call.offset, more)


def digest_explained(document: Any, _call: Call) -> Digest:
    """Makes a row per finding, in order, with its evidence."""
    evidence = document["evidence"]
    run = evidence.get("run") or {}
    launches = [
        pick(launch, "entry share") | {"findings": _causes(launch)} for launch in document.get("launches") or []
    ]
    has_cause = document["findings"] or launches
    head = pick(document, "label gain") | present(
        rests_on=pick(evidence, "gpu profile arch") | pick(run, "run_id time_us"),
        launches=launches,
        warnings=_texts(document["warnings"]),
        found_nothing=None if has_cause else "no rule finds a cause that explains a twentieth of the time",
        next=document["next"],
    )
    return Digest({**head, "findings": _causes(document)}, "findings", more="`gdnbench explain` in a shell")


def _causes(document: Row) -> list[dict[str, Any]]:
    return [
        pick(finding, "title share basis meaning code hints")
        | {"facts": [_fact(fact) for fact in finding["facts"][:_MOST_FACTS]]}
        | present(**{f"try_{name}": text for name, text in (finding["experiment"] or {}).items()})
        for finding in document["findings"]
    ]


def _fact(fact: Row) -> str:
    value = fact["value"]
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return " ".join(filter(None, [f"{fact['title']}: {text}", fact["unit"], f"({fact['note']})"]))


_BUILD = (
    "regs spills smem threads blocks occupancy limited_by grid waves instructions load_bits trips serialized_because"
)
_ACCESSES = (" load ", " store ", "atomic", "async", "bulk", "wgmma", "tensor")


def digest_inspected(document: Any, call: Call) -> Digest:
    """Makes a row per build, or of changes with `--diff`; of machine code, a row per line."""
    if isinstance(document, str):
        return Digest({"code": document.splitlines()}, "code", call.offset, call.more)
    builds: list[Row] = [row.get("after", row) for row in document]
    axes = _axes(builds, "params", "arch")
    rows = [
        pick(build, "label launch", *axes, "arch", "status", "reason", "breaks")
        | (_changes(pair) if "after" in pair else _build(build))
        for build, pair in zip(builds, document, strict=True)
    ]
    return _digest("builds", rows, {}, call.offset, call.more)


def _build(build: Row) -> dict[str, Any]:
    mix = build.get("mix") or {}
    accesses = {kind: mix[kind] for kind in mix if any(word in f" {kind} " for word in _ACCESSES)}
    return pick(build, _BUILD) | present(loads_and_stores=accesses)


def _changes(pair: Row) -> dict[str, Any]:
    changes = {change["quantity"]: [change["value_before"], change["value_after"]] for change in pair["changes"]}
    return present(against=pair["before"]["label"], same_code=pair["same"], before_and_after=changes)


def digest_verified(document: Any, _call: Call) -> Digest:
    """Makes a row per case with its status and failed gates, failed cases first; a row a mark or a program's gate."""
    if "marks" in document:
        return _digest("marks", document["marks"], pick(document, "device seed"), more="name fewer lengths")
    gates: list[Row] = document["gates"]
    if "program" in document:
        about = "kernels device interpreted profile seed events status reason program"
        return _digest("gates", sorted(gates, key=lambda gate: gate["passed"]), pick(document, about))
    axes = _axes(gates, "label", "interpreted")
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for gate in gates:
        cases.setdefault((gate["label"], *(gate[axis] for axis in axes)), []).append(gate)
    rows = []
    for own in cases.values():
        failed = [gate for gate in own if gate["passed"] is False]
        worst = next((gate for gate in own if gate["status"] != "ok"), own[0])
        numbers = "gate scenario worst limit where got expected wrong of spread"
        rows.append(
            pick(worst, "label", *axes, "status", "reason", "notes")
            | present(
                interpreted=worst["interpreted"] or None,
                gates_passed=sum(bool(gate["passed"]) for gate in own),
                gates_failed=[pick(gate, numbers) for gate in failed[:_MOST_GATES]],
                further_gates_failed=max(0, len(failed) - _MOST_GATES) or None,
            )
        )
    rows.sort(key=lambda row: row["status"] == "ok")  # stable
    more = "verify fewer kernels, or fewer workloads by shape"
    wanted = f"label {' '.join(axes)} kind claimed pair differing of in_gates first between"
    differing = [pick(row, wanted) for row in document.get("invariance", ()) if row["differing"]]
    tested = present(invariance=differing[:_MOST_GATES]) if "invariance" in document else {}
    return _digest("cases", rows, pick(document, "device seed") | tested, more=more)


def digest_kernels(document: Any, call: Call) -> Digest:
    """Makes a row per kernel."""
    rows = [
        pick(entry, "kernel op language status reason idea")
        | present(params={name: _param(param) for name, param in entry["params"].items()}, presets=[*entry["presets"]])
        | pick(entry, "kernel_us over_copy last_gpu last_run")
        for entry in document
    ]
    return _digest("kernels", rows, {}, call.offset, call.more)


def _param(param: Any) -> str:
    choices = f" of {','.join(map(str, param['choices']))}" if param["choices"] else ""
    return f"{param['default']}{choices}"


def digest_ledger(document: Any, call: Call) -> Digest:
    """Makes a row per entry, oldest first, or one entry with the printed change of its sources, line by line."""
    if "entries" in document:
        return _digest("entries", [_entry(entry) for entry in document["entries"]], {}, call.offset, call.more)
    change = present(change=str(document.get("diff") or "").splitlines())
    return Digest({"entry": _entry(document), **change}, "change", call.offset, call.more)


def _entry(entry: Row) -> dict[str, Any]:
    last = entry["closings"][-1] if entry["closings"] else {}
    return (
        pick(entry, "id label hypothesis")
        | present(expected=[each["text"] for each in entry["expectations"]])
        | pick(entry, "stop state")
        | present(after=entry["after"] or None)
        | pick(last, "run learned notes")
        | present(findings=[pick(each, "outcome value low high reason how") for each in last.get("findings", ())])
    )


def digest_run(document: Any, call: Call) -> Digest:
    """Makes a row per case of what `run`, `sweep` or `show` printed, of those that the call names."""
    if "sweep" in document:
        return _digest_sweep(document, call)
    if "rows" in document:
        return _digest_step(document, call)
    if "measurements" in document:
        return _digest_cases(document, call)
    return Digest({"plan": document})  # --dry-run


def _stored(document: Row, call: Call, name: str, rows: list[dict[str, Any]], **fields: Any) -> Digest:
    """Makes the digest of a stored run: what heads it, further fields, and its rows under `name`."""
    run = document.get("run") or {}
    head = present(
        **(pick(run, "run_id op gpu complete baseline") or pick(document, "runs op gpu")),
        **pick(run.get("settings") or {}, "margin rounds"),
        warnings=_texts(run.get("warnings"), document.get("warnings")),
        left_out=document.get("left_out"),
        **fields,
    )
    again = str(run.get("run_id") or " ".join(document.get("runs") or []))
    kernels, shape = _requested(call)
    more = call_of("show", run=again, kernel=",".join(kernels), shape=shape, offset="{offset}")
    return _digest(name, rows, head, call.offset, more)


def _requested(call: Call) -> tuple[list[str], str]:
    """Returns the kernels and the workloads that a call of `show` is narrowed to; other tools show all of them."""
    if call.tool.name != "show":
        return [], ""
    return split_names(call.values["kernel"], "kernel"), call.values["shape"]


def _chosen(rows: Iterable[Row], axes: Sequence[str], call: Call) -> list[Row]:
    """Returns the requested rows; raises UsageError for an unknown axis."""
    kernels, shape = _requested(call)
    wanted: dict[str, list[str]] = {}
    for part in shape.split():
        axis, _, sizes = part.partition("=")
        if axis not in axes:
            raise UsageError(f"shape: {axis!r} is not an axis of this run", f"its axes are {', '.join(axes)}")
        wanted.setdefault(axis, []).extend(sizes.split(","))
    sized = (row for row in rows if all(str(row.get(axis)) in sizes for axis, sizes in wanted.items()))
    return [row for row in sized if not kernels or _is_named(row, kernels)]


def _is_named(row: Row, kernels: Sequence[str]) -> bool:
    own = [str(row.get(field) or "") for field in ("label", "kernel", "preset")]
    return any(fnmatchcase(each, name) for name in kernels for each in own)


_INPUTS = "inputs_ratio inputs_worst inputs_best"  # told of a kernel whose time depends on its inputs


def _digest_cases(document: Row, call: Call) -> Digest:
    rows: list[Row] = document["measurements"]
    axes = _axes(rows, "workload", "timer")
    chosen = _chosen(rows, axes, call)

    def key(row: Row) -> tuple[object, ...]:
        return row["label"], row["workload"], row.get("card")

    clocks = {key(row): row for row in chosen if row.get("timer") in CLOCKS[:1]}
    own = [row for row in chosen if row.get("timer") not in CLOCKS]
    own.sort(key=lambda row: row.get("role") in {"floor", "ablation"})  # stable: puts last what is left out first
    fields = "time_us time_lo_us time_hi_us vs_baseline vs_lo vs_hi verdict sol"
    cases = [
        pick(row, "label card role", *axes, "status", "reason", *fields.split(), "warnings")
        | pick(row, _INPUTS if (row.get("inputs_lo") or 0.0) > 1.0 + INPUTS_MARGIN else "")
        | {f"kernel_{name}": value for name, value in pick(clocks.get(key(row), {}), fields).items()}
        for row in own
    ]
    suite = document.get("suite")
    mean = "label time_us over speedup speedup_lo speedup_hi verdict slower_at worst_speedup worst_workload"
    means = suite and {"name": suite["name"], "weighted_geomeans": [pick(row, mean) for row in suite["kernels"]]}
    return _stored(document, call, "cases", cases, suite=means)


def _digest_sweep(document: Row, call: Call) -> Digest:
    sweep = document["sweep"]
    axes = list(sweep["points"][0]["shape"]) if sweep["points"] else []
    bests = [{**plateau, **plateau["shape"]} for plateau in sweep["plateaus"]]
    plateaus = [
        pick(best, "kernel", *axes, "best", "simplest")
        | present(tied=best["tied"][:_MOST_TIED], tied_in_all=len(best["tied"]), unclear=best["unclear"][:_MOST_TIED])
        for best in _chosen(bests, axes, call)
    ]
    points = _chosen([{**point, **point["shape"]} for point in sweep["points"]], axes, call)
    rows = [pick(point, "label", *axes, "place", "slower_by", "slower_lo", "slower_hi") for point in points]
    failed = [row for row in document["measurements"] if row["status"] != "ok"][:_MOST_TIED]
    return _stored(
        document,
        call,
        "points",
        rows,
        plateaus=plateaus,
        one_for_all=[present(**each) for each in sweep.get("one_for_all") or []],
        failed=[pick(row, "label status reason") for row in failed],
    )


_STEP = (
    "label workload path l2 status reason step_us step_lo_us step_hi_us kernels_us versus speedup speedup_lo speedup_hi"
    " verdict"
)
_LAUNCH = "way arguments status reason host_us host_lo_us host_hi_us gap_us gap_lo_us gap_hi_us"


def _digest_step(document: Row, call: Call) -> Digest:
    rows: list[Row] = document["rows"]
    if any("way" in row for row in rows):  # --launches: ways of launching an empty kernel
        return _stored(document, call, "launches", [pick(row, _LAUNCH) for row in rows])
    kernels, shape = _requested(call)
    words = set(shape.split())
    known = dict.fromkeys(word for row in rows for word in row["workload"].split())
    if unknown := words - known.keys():
        hint = f"its workloads have the axes {', '.join(known)}"
        raise UsageError(f"shape: {min(unknown)!r} is in no workload of this step", hint)
    chosen = [row for row in rows if not row.get("is_again") and words <= set(row["workload"].split())]
    named = [row for row in chosen if not kernels or _is_named(row, kernels)]
    return _stored(document, call, "steps", [pick(row, _STEP) for row in named])
