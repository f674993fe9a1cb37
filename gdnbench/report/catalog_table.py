"""The catalog as a table and as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.catalog import Broken, Catalog, Entry, Pick, select_variants
from gdnbench.model import CodeState, Shape
from gdnbench.report.console import data_console, print_next
from gdnbench.report.picks import codes_of_picks
from gdnbench.report.run_table import time_text
from gdnbench.store.latest import LastTime, last_times

WIDE_ENOUGH_FOR_IDEAS = 50  # columns; in a narrower terminal a name and a time are all that fits


@dataclass(frozen=True)
class Listed:
    """What is listed.

    Attributes:
        entries: the kernels.
        broken: the folders that did not load.
        times: the last known time of each kernel at its op's default shape, by name; none where it was not timed.
        codes: whether each of those times is of the kernel's code as it is now, by name.
        picks: whether what a dispatcher's row names is still the code that the run of that row timed.
        in_full: whether each kernel was named, so that all of it is shown.
    """

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]
    times: Mapping[str, LastTime]
    codes: Mapping[str, CodeState]
    picks: Mapping[Pick, CodeState]
    in_full: bool

    def documents(self) -> list[dict[str, Any]]:
        """One document a kernel, the broken ones last."""
        healthy = [_document(entry, self) for entry in self.entries]
        empty = dict.fromkeys(healthy[0], "") if healthy else {}
        broken = [
            {**empty, "kernel": each.name, "status": "broken", "reason": each.reason, "folder": str(each.folder)}
            for each in self.broken
        ]
        return [*healthy, *broken]


def choose_listed(catalog: Catalog, wanted: Sequence[str], results: Path) -> Listed:
    """The kernels that names and globs mean, presets' among them; all of them, and the broken ones, without any.

    Raises:
        UnknownNameError: for a name that nothing has.
    """
    terms = [term.strip().partition(":")[0] for text in wanted for term in text.split(",") if term.strip()]
    chosen = {entry.kernel.name: entry for term in terms for entry in _matching(catalog, term)}
    entries = tuple(chosen.values()) if terms else tuple(catalog.entries.values())
    in_full = bool(terms) and not any(set("*?[") & set(term) or term == "all" for term in terms)
    times = _times(entries, results)
    codes = {name: _code_of(catalog, name, time) for name, time in times.items()}
    return Listed(entries, () if terms else catalog.broken, times, codes, codes_of_picks(catalog, results), in_full)


def _code_of(catalog: Catalog, name: str, time: LastTime) -> CodeState:
    """Of a dispatcher's time, both its table and what it picked must be as they were."""
    names = dict.fromkeys((name, time.kernel))
    return CodeState.together(catalog.code_state(each, time.sources.get(each, "")) for each in names)


def _matching(catalog: Catalog, term: str) -> list[Entry]:
    pattern = "*" if term == "all" else term
    found = [
        entry
        for entry in catalog.entries.values()
        if any(fnmatchcase(variant.label, pattern) for variant in (entry.default, *entry.presets))
    ]
    if not found:
        select_variants(catalog, next(iter(catalog.ops), ""), term)  # says what there is instead
    return found


def _times(entries: Sequence[Entry], results: Path) -> dict[str, LastTime]:
    found: dict[str, LastTime] = {}
    for op in {entry.op.name: entry.op for entry in entries}.values():
        names = [entry.kernel.name for entry in entries if entry.op.name == op.name]
        times = last_times(results, op.name, op.default_shape, names)
        found |= {name: times[name] for name in names if name in times}
    return found


def print_catalog(listed: Listed, *, long: bool) -> None:
    """A line a kernel; with `long`, or where kernels were named, all that is known of each."""
    console = data_console()
    if long or listed.in_full:
        console.print(_long_table(listed))
    else:
        console.print(_short_table(listed, console.width))
    if listed.times:
        console.print(Text(_legend(listed), style="dim"))
    console.print()
    first = listed.entries[0].kernel.name if listed.entries else "all"
    print_next(console, ["gdnbench", "verify", first] if listed.in_full else ["gdnbench", "list", first])


def _short_table(listed: Listed, width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    table.add_column("kernel", no_wrap=True, overflow="ellipsis")
    table.add_column("language", no_wrap=True)
    table.add_column("µs", justify="right", no_wrap=True)
    if width >= WIDE_ENOUGH_FOR_IDEAS:
        table.add_column("idea", no_wrap=True, overflow="ellipsis", ratio=1)
    for entry in listed.entries:
        need = entry.missing()
        said = Text(f"needs {need.module}; {need.remedy}", style="yellow") if need else Text(entry.idea)
        cells = [Text(entry.kernel.name, style="cyan"), Text(entry.kernel.language), _time(entry, listed)]
        table.add_row(*cells, *([said] if width >= WIDE_ENOUGH_FOR_IDEAS else []))
    for broken in listed.broken:
        cells = [Text(broken.name, style="red"), Text("broken", style="red"), Text("")]
        table.add_row(*cells, *([Text(broken.reason, style="red")] if width >= WIDE_ENOUGH_FOR_IDEAS else []))
    return table


def _time(entry: Entry, listed: Listed) -> Text:
    last = listed.times.get(entry.kernel.name)
    if last is None:
        return Text("")
    changed = listed.codes[entry.kernel.name] is CodeState.CHANGED
    return Text(f"{time_text(last.time_us)}{'*' if changed else ' '}")


def _legend(listed: Listed) -> str:
    gpus = ", ".join(dict.fromkeys(last.gpu for last in listed.times.values()))
    shapes = ", ".join(dict.fromkeys(str(entry.op.default_shape) for entry in listed.entries))
    said = f"µs: at {shapes} on {gpus}, in the newest run that timed the kernel"
    return f"{said}; *: its code has changed since" if CodeState.CHANGED in listed.codes.values() else said


def _long_table(listed: Listed) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("kernel", "language", "what"):
        table.add_column(heading, header_style="bold", no_wrap=heading == "language", overflow="fold")
    for entry in listed.entries:
        table.add_row(Text(entry.kernel.name, style="cyan"), entry.kernel.language, _what(entry, listed))
    for broken in listed.broken:
        table.add_row(Text(broken.name, style="red"), "", Text(f"broken: {broken.reason}", style="red"))
    return table


def _what(entry: Entry, listed: Listed) -> Text:
    lines = [Text(entry.idea)]
    if last := listed.times.get(entry.kernel.name):
        since = "; its code has changed since" if listed.codes[entry.kernel.name] is CodeState.CHANGED else ""
        shape = entry.op.default_shape
        lines.append(
            Text(f"{time_text(last.time_us)} µs at {shape} on {last.gpu} in {last.run_id}{since}", style="dim")
        )
    presets = [f"{name} ({_values(values)})" for name, values in entry.kernel.presets.items()]
    if presets:
        lines.append(Text("presets: " + ", ".join(presets), style="dim"))
    for name, param in entry.kernel.params.items():
        choices = ", ".join(str(choice) for choice in param.choices)
        lines.append(Text(f"{name} = {param.default} of {choices}: {param.doc}", style="dim"))
    if entry.kernel.by_shape:
        tuned = [f"{shape} {_values(values)}" for shape, values in entry.kernel.by_shape.items()]
        lines.append(Text("defaults by shape: " + "; ".join(tuned), style="dim"))
    if entry.dispatch:
        lines += [Text(f"{gpu}: {_picks(rows)}", style="dim") for gpu, rows in entry.dispatch.picks.items()]
        if changed := [pick.kernel for pick in entry.dispatch.rows if listed.picks[pick] is CodeState.CHANGED]:
            told = f"of other code: {', '.join(dict.fromkeys(changed))} changed since the runs that the table names"
            lines.append(Text(told, style="yellow"))
    need = entry.missing()
    if need:
        lines.append(Text(f"not available: needs {need.module}; {need.remedy}", style="yellow"))
    return Text("\n").join(lines)


def _picks(rows: Mapping[Shape, Pick]) -> str:
    return "; ".join(f"{shape} {pick.kernel} {pick.params}".rstrip() for shape, pick in sorted(rows.items()))


def _values(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _document(entry: Entry, listed: Listed) -> dict[str, Any]:
    kernel, need = entry.kernel, entry.missing()
    last = listed.times.get(kernel.name)
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
        "by_shape": [{"shape": shape.axes(), "params": dict(values)} for shape, values in kernel.by_shape.items()],
        "dispatch": [
            {
                "gpu": gpu,
                "shape": shape.axes(),
                "kernel": pick.kernel,
                "params": dict(pick.params),
                "source": pick.source,
                "code": listed.picks[pick],
            }
            for gpu, rows in (entry.dispatch.picks if entry.dispatch else {}).items()
            for shape, pick in rows.items()
        ],
        "requires": [need.module for need in kernel.requires],
        "status": "missing" if need else "ok",
        "reason": f"needs {need.module}: {need.remedy}" if need else "",
        "idea": entry.idea,
        "folder": str(entry.folder),
        "last_time_us": last.time_us if last else None,
        "last_gpu": last.gpu if last else "",
        "last_run": last.run_id if last else "",
        "last_code": listed.codes[kernel.name] if last else "",
    }
