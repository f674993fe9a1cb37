"""Prints kernels for `gdnbench list`: language, last known time, idea; in full if they are named.

The times are of several runs, so a stream time, which is comparable inside its run alone, has no column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Broken, CatalogEntry, Pick, label_parts
from gdnbench.catalog.resolve import find_op
from gdnbench.catalog.select import select_variants
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.render.console import data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import time_text
from gdnbench.store.find import LastTime, LastTimes, find_run
from gdnbench.store.info import read_info
from gdnbench.wording import plural

WIDE_ENOUGH_FOR_IDEAS = 50  # characters; in a narrower terminal only a name and a time fit
WIDE_ENOUGH_FOR_RUNS = 110  # characters; in a narrower terminal ideas would be cut to a few words
_KERNEL_US, _OVER_COPY = "kernel µs", "/ copy"
_MEANINGS = {
    _KERNEL_US: "kernel time, first block's start to last block's end (CUPTI), which holds no launch",
    _OVER_COPY: "stream time over that of the same run's copying floor; both hold a launch",
}


@dataclass(frozen=True)
class KernelList:
    """The kernels to list; `in_full` if they were named one by one, and are shown with all that is known.

    By kernel name, `times` has the last known time at the op's default workload, and `codes` whether that is of the
    current code. `elsewhere` has the newest run of ops whose kernels here have no such time. `picks` tells, per row of
    a dispatcher's table, whether its run timed the kernel's current code.
    """

    entries: tuple[CatalogEntry, ...]
    broken: tuple[Broken, ...]
    times: Mapping[str, LastTime]
    elsewhere: Mapping[str, str]
    codes: Mapping[str, CodeState]
    picks: Mapping[Pick, CodeState]
    in_full: bool


def find_kernels(catalog: Catalog, wanted: Sequence[str], results: Path, op: str = "") -> KernelList:
    """Returns the kernels whose names or presets match; without terms, all kernels and the broken folders.

    `wanted` has names and globs, separated by commas or one by one; an op's name means its kernels. `op` restricts to
    one op's kernels. Raises UnknownNameError for an unknown op, or a term that matches none of its kernels.
    """
    there = catalog.of_op(find_op(catalog, op).name) if op else tuple(catalog.entries.values())
    terms = [label_parts(term.strip())[0] for text in wanted for term in text.split(",") if term.strip()]
    chosen = {entry.kernel.name: entry for term in terms for entry in _matching(catalog, there, term, op)}
    entries = tuple(chosen.values()) if terms else tuple(there)
    in_full = bool(terms) and not any(set("*?[") & set(term) or term in {"all", *catalog.ops} for term in terms)
    stored = LastTimes(results)
    ops = {entry.op.name: entry.op for entry in entries}
    names = {op: [entry.kernel.name for entry in entries if entry.op.name == op] for op in ops}
    times = stored.at({op: found.default for op, found in ops.items()}, names)
    elsewhere = stored.newest_of_ops(ops.keys() - {catalog.entries[name].op.name for name in times})
    codes = {name: _code_of(catalog, name, time) for name, time in times.items()}
    broken = tuple(each for each in catalog.broken if not terms and op in {"", each.name.partition("/")[0]})
    return KernelList(entries, broken, times, elsewhere, codes, _codes_of_picks(catalog, results), in_full)


def _code_of(catalog: Catalog, name: str, time: LastTime) -> CodeState:
    """Returns the joint state of a kernel's code; for a dispatcher, of its table and of the kernel that it picked."""
    names = dict.fromkeys((name, time.kernel))
    return CodeState.together(catalog.code_state(each, time.sources.get(each, "")) for each in names)


def _matching(catalog: Catalog, there: Sequence[CatalogEntry], term: str, op: str) -> list[CatalogEntry]:
    pattern = "*" if term == "all" else term
    found = [
        entry
        for entry in there
        if term == entry.op.name
        or any(fnmatchcase(variant.label, pattern) for variant in (entry.default, *entry.presets))
    ]
    if not found:
        select_variants(catalog, op or next(iter(catalog.ops), ""), term)  # raises, naming the known kernels
    return found


def _codes_of_picks(catalog: Catalog, results: Path) -> dict[Pick, CodeState]:
    """Returns, for each pick, whether the kernel is as it was timed; unknown if the run is missing."""
    picks = [pick for entry in catalog.entries.values() if entry.dispatch for pick in entry.dispatch.rows]
    timed = {source: _sources(results, source) for source in {pick.source for pick in picks}}
    stored = {pick: (pick.kernel, timed[pick.source].get(pick.kernel, "")) for pick in picks}
    states = {each: catalog.code_state(*each) for each in set(stored.values())}
    return {pick: states[each] for pick, each in stored.items()}


def _sources(results: Path, run_id: str) -> dict[str, str]:
    try:
        return read_info(find_run(results, run_id)).sources
    except (UnknownNameError, RunFormatError):
        return {}


def print_kernels(kernels: KernelList, *, long: bool, json: bool, csv: bool) -> None:
    """Prints a line per kernel, or with `long`, or if kernels were named, all that is known of each."""
    if json:
        print_json(_documents(kernels))
    elif csv:
        print_csv(_documents(kernels))
    else:
        _print_table(kernels, long=long)


def _print_table(kernels: KernelList, *, long: bool) -> None:
    console = data_console()
    if long or kernels.in_full:
        console.print(_long_table(kernels))  # it says of each time what it is
    else:
        console.print(_short_table(kernels, console.width))
        for broken in kernels.broken:  # here, because a cell cannot hold the full reason
            console.print(Text(f"broken  {broken.name}: {broken.reason}", style="red"))
        if kernels.times:
            console.print(Text(_legend(kernels), style="dim"))
    for op, run_id in kernels.elsewhere.items():
        console.print(
            Text(f"{op}: no time at {_default_of(op, kernels)}; of others: gdnbench show {run_id}", style="dim")
        )
    console.print()
    first = kernels.entries[0].kernel.name if kernels.entries else "all"
    print_next(console, ["gdnbench", "verify", first] if kernels.in_full else ["gdnbench", "list", first])


def _short_table(kernels: KernelList, width: int) -> Table:
    table = plain_table()
    table.expand = True
    table.add_column("kernel", no_wrap=True, overflow="ellipsis")
    table.add_column("language", no_wrap=True)
    columns = _time_columns(kernels)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    has_runs = width >= WIDE_ENOUGH_FOR_RUNS and bool(kernels.times)
    if has_runs:
        table.add_column("run", no_wrap=True)
    if width >= WIDE_ENOUGH_FOR_IDEAS:
        table.add_column("idea", no_wrap=True, overflow="ellipsis", ratio=1)
    for entry in kernels.entries:
        need = entry.missing()
        said = Text(f"needs {need.module}; {need.remedy}", style="yellow") if need else Text(entry.idea)
        cells = [Text(entry.kernel.name, style="cyan"), Text(entry.kernel.language)]
        cells += [Text(texts.get(entry.kernel.name, "")) for texts in columns.values()]
        cells += [Text(_run_of(entry, kernels), style="dim")] if has_runs else []
        table.add_row(*cells, *([said] if width >= WIDE_ENOUGH_FOR_IDEAS else []))
    return table


def _time_columns(kernels: KernelList) -> dict[str, dict[str, str]]:
    """Returns, by heading, what is comparable over runs, by kernel; without columns that no kernel fills."""
    marks = {name: "*" if code is CodeState.CHANGED else " " for name, code in kernels.codes.items()}
    times = kernels.times.items()
    columns = {
        "GPU": {n: last.gpu for n, last in times if len(_gpus(kernels)) > 1},
        _KERNEL_US: {n: f"{time_text(last.kernel_us)}{marks[n]}" for n, last in times if last.kernel_us},
        _OVER_COPY: {n: f"{last.over_copy:.3f}{marks[n]}" for n, last in times if last.over_copy},
    }
    return {heading: texts for heading, texts in columns.items() if texts}


def _gpus(kernels: KernelList) -> list[str]:
    return list(dict.fromkeys(last.gpu for last in kernels.times.values()))


def _run_of(entry: CatalogEntry, kernels: KernelList) -> str:
    """Returns the part of the run's id that names it: its start and the GPU, `20261124-173621-h200`."""
    last = kernels.times.get(entry.kernel.name)
    return "-".join(last.run_id.split("-")[:3]) if last else ""


def _default_of(op: str, kernels: KernelList) -> Workload:
    return next(entry.op.default for entry in kernels.entries if entry.op.name == op)


def _legend(kernels: KernelList) -> str:
    defaults = {entry.op.name: str(entry.op.default) for entry in kernels.entries if entry.kernel.name in kernels.times}
    several = len(defaults) > 1
    workloads = ", ".join(f"{op} at {workload}" if several else f"at {workload}" for op, workload in defaults.items())
    columns = _time_columns(kernels)
    said = [f"{heading}: {_MEANINGS[heading]}." for heading in columns if heading in _MEANINGS]
    where = f"{workloads} on {', '.join(_gpus(kernels))}"
    said.append(f"Of the newest run that timed the kernel (--long names it), {where}.")
    if any("*" in text for texts in columns.values() for text in texts.values()):
        said.append("*: its code has changed since.")
    if count := sum(not (last.kernel_us or last.over_copy) for last in kernels.times.values()):
        said.append(f"Of {plural(count, 'kernel')} the run has neither: --long has the stream time.")
    return " ".join(said)


def _long_table(kernels: KernelList) -> Table:
    table = plain_table()
    for heading in ("kernel", "language", "what"):
        table.add_column(heading, header_style="bold", no_wrap=heading == "language", overflow="fold")
    for entry in kernels.entries:
        table.add_row(Text(entry.kernel.name, style="cyan"), entry.kernel.language, _what(entry, kernels))
    for broken in kernels.broken:
        table.add_row(Text(broken.name, style="red"), "", Text(f"broken: {broken.reason}", style="red"))
    return table


def _what(entry: CatalogEntry, kernels: KernelList) -> Text:
    lines = [Text(entry.idea)]
    if last := kernels.times.get(entry.kernel.name):
        figures = [f"kernel time {time_text(last.kernel_us)} µs"] if last.kernel_us else []
        figures += [f"{last.over_copy:.3f} times the copying floor's stream time"] if last.over_copy else []
        figures.append(f"stream time {time_text(last.time_us)} µs, comparable in its run alone")
        since = "; its code has changed since" if kernels.codes[entry.kernel.name] is CodeState.CHANGED else ""
        where = f"at {entry.op.default} on {last.gpu} in {last.run_id}"
        lines.append(Text(f"{where}: {'; '.join(figures)}{since}", style="dim"))
    presets = [f"{name} ({_values(values)})" for name, values in entry.kernel.presets.items()]
    if presets:
        lines.append(Text("presets: " + ", ".join(presets), style="dim"))
    for name, param in entry.kernel.params.items():
        choices = ", ".join(str(choice) for choice in param.choices)
        lines.append(Text(f"{name} = {param.default} of {choices}: {param.doc}", style="dim"))
    if entry.kernel.by_shape:
        tuned = [f"{entry.op.workload(shape)} {_values(values)}" for shape, values in entry.kernel.by_shape.items()]
        lines.append(Text("defaults by workload: " + "; ".join(tuned), style="dim"))
    if entry.dispatch:
        lines += [Text(f"{gpu}: {_picks(rows)}", style="dim") for gpu, rows in entry.dispatch.picks.items()]
        if changed := [pick.kernel for pick in entry.dispatch.rows if kernels.picks[pick] is CodeState.CHANGED]:
            told = f"of other code: {', '.join(dict.fromkeys(changed))} changed since the runs that the table names"
            lines.append(Text(told, style="yellow"))
    need = entry.missing()
    if need:
        lines.append(Text(f"not available: needs {need.module}; {need.remedy}", style="yellow"))
    return Text("\n").join(lines)


def _picks(rows: Mapping[Workload, Pick]) -> str:
    return "; ".join(f"{workload} {pick.kernel} {pick.params}".rstrip() for workload, pick in sorted(rows.items()))


def _values(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _documents(kernels: KernelList) -> list[dict[str, Any]]:
    healthy = [_document(entry, kernels) for entry in kernels.entries]
    empty = dict.fromkeys(healthy[0], "") if healthy else {}
    broken = [
        {**empty, "kernel": each.name, "status": "broken", "reason": each.reason, "folder": str(each.folder)}
        for each in kernels.broken
    ]
    return [*healthy, *broken]


def _document(entry: CatalogEntry, kernels: KernelList) -> dict[str, Any]:
    kernel, need = entry.kernel, entry.missing()
    last = kernels.times.get(kernel.name)
    return {
        "kernel": kernel.name,
        "op": entry.op.name,
        "language": kernel.language,
        "floor": kernel.floor,
        "presets": {name: dict(values) for name, values in kernel.presets.items()},
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "doc": param.doc}
            for name, param in kernel.params.items()
        },
        "by_shape": [
            {"shape": entry.op.workload(shape).cells, "params": dict(values)}
            for shape, values in kernel.by_shape.items()
        ],
        "dispatch": [
            {
                "gpu": gpu,
                "shape": workload.cells,
                "kernel": pick.kernel,
                "params": dict(pick.params),
                "source": pick.source,
                "code": kernels.picks[pick],
            }
            for gpu, rows in (entry.dispatch.picks if entry.dispatch else {}).items()
            for workload, pick in rows.items()
        ],
        "requires": [need.module for need in kernel.requires],
        "status": "missing" if need else "ok",
        "reason": f"needs {need.module}: {need.remedy}" if need else "",
        "idea": entry.idea,
        "folder": str(entry.folder),
        "last_time_us": last.time_us if last else None,
        "last_gpu": last.gpu if last else "",
        "last_run": last.run_id if last else "",
        "last_code": kernels.codes[kernel.name] if last else "",
        "kernel_us": last.kernel_us if last else None,
        "over_copy": last.over_copy if last else None,
        "comparable_in_one_run_alone": ["last_time_us"],
    }
