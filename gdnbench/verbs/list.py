"""`gdnbench list`: which kernels are there?

The times are of several runs, so a stream time, which is comparable inside its run alone, has no column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gdnbench.catalog.catalog import Catalog, find_op, load_catalog
from gdnbench.catalog.entry import Broken, CatalogEntry, Pick, label_parts
from gdnbench.catalog.select import resolve_op, select_variants
from gdnbench.errors import RunFormatError
from gdnbench.model.case import CodeState
from gdnbench.model.declaration import EVERY
from gdnbench.origin import EVIDENCE, RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import NAME_STYLE, time_text
from gdnbench.store.find import LastTime, last_times
from gdnbench.store.info import read_info
from gdnbench.verbs.options import (
    CsvOption,
    JsonOption,
    KernelsArgument,
    KernelsOption,
    LibraryOption,
    ResultsOption,
    complete_ops,
    terms,
)
from gdnbench.wording import plural


def list_kernels(
    kernels: KernelsArgument = None,
    kernel: KernelsOption = None,
    op: Annotated[
        str, typer.Option(help="List the kernels of this op alone.", autocompletion=complete_ops, show_default=False)
    ] = "",
    library: LibraryOption = False,
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """List kernels: language, last known time, idea; all, or those named, or an op's.

    A time is from the newest run that timed the kernel at the op's default workload:
    its kernel time, and its stream time over the copying floor's of the same run.
    Kernels that are named in full are shown with everything that is known of them. A
    folder that does not load is listed as broken, with the reason.

    A project's kernels come first: those below `paths` of `[kernels]` in the nearest
    `gdnbench.toml`, or in the nearest `kernels/`, up to the root of the repository. In a
    project they are meant wherever no kernel is named; `--library`, or a name, means
    those that gdnbench brings, too. Folders in `GDNBENCH_KERNELS` are read as well.
    """
    listed = find_kernels(load_catalog(library=library), terms(kernels, kernel), results, op)
    able = [entry for entry in listed.entries if not entry.missing()] or listed.entries
    first = able[0].kernel.name if able else "--library" if listed.left_out else EVERY
    answer = Answer(
        text=lambda width: _text(listed, width),
        document=lambda: _records(listed),
        records=lambda: _records(listed),
        next=command("verify" if listed.in_full else "list", first),
    )
    print_answer(answer, json=json, csv=csv)


_WIDE_ENOUGH_FOR_IDEAS = 50  # characters; in a narrower terminal only a name and a time fit
_WIDE_ENOUGH_FOR_RUNS = 110  # characters; in a narrower terminal ideas would be cut to a few words
_KERNEL_US, _OVER_COPY = "kernel µs", "/ copy"
_MEANINGS = {
    _KERNEL_US: "kernel time, first block's start to last block's end (CUPTI), which holds no launch",
    _OVER_COPY: "stream time over that of the same run's copying floor; both hold a launch",
}


@dataclass(frozen=True)
class KernelList:
    """The kernels to list; `in_full` if they were named one by one, and are shown with all that is known.

    By kernel name, `times` has the last known time at the op's default workload, and `codes` whether that is of the
    current code. In a project `own` names its kernels, and `left_out` has those that gdnbench brings and that are not
    listed, of `op`, or of all if empty.
    """

    catalog: Catalog
    results: Path

    entries: tuple[CatalogEntry, ...]
    broken: tuple[Broken, ...]
    times: Mapping[str, LastTime]
    codes: Mapping[str, CodeState]
    in_full: bool
    own: frozenset[str]
    left_out: tuple[CatalogEntry, ...]
    op: str

    @cached_property
    def picks(self) -> dict[Pick, CodeState]:
        """Whether the kernel is as it was timed, by the rows of dispatchers' tables; unknown if the run is missing."""
        picks = [pick for entry in self.catalog.entries.values() if entry.dispatch for pick in entry.dispatch.rows]
        timed = {source: _sources(self.results, source) for source in {pick.source for pick in picks}}
        stored = {pick: (pick.kernel, timed[pick.source].get(pick.kernel, "")) for pick in picks}
        states = {each: self.catalog.code_state(*each) for each in set(stored.values())}
        return {pick: states[each] for pick, each in stored.items()}


def find_kernels(catalog: Catalog, wanted: Sequence[str], results: Path, op: str = "") -> KernelList:
    """Returns the kernels whose names, globs, op or presets match; without terms all, and the broken folders."""
    candidates = catalog.of_op(find_op(catalog, op).name) if op else tuple(catalog.entries.values())
    meant = catalog.meant_of_op(op) if op else catalog.meant
    terms = [label_parts(term.strip())[0] for text in wanted for term in text.split(",") if term.strip()]
    chosen = {
        entry.kernel.name: entry
        for term in terms
        for entry in _matching(catalog, meant if term == EVERY else candidates, term, op)
    }
    entries = tuple(chosen.values()) if terms else meant
    in_full = bool(terms) and not any(set("*?[") & set(term) or term in {EVERY, *catalog.ops} for term in terms)
    ops = {entry.op.name: entry.op for entry in entries}
    names = {op: [entry.kernel.name for entry in entries if entry.op.name == op] for op in ops}
    times = last_times(results, {name: op.default for name, op in ops.items()}, names)
    codes = {name: _code_of(catalog, name, time) for name, time in times.items()}
    broken = tuple(each for each in catalog.broken if not terms and op in {"", each.name.partition("/")[0]})
    own = frozenset(name for name, entry in catalog.entries.items() if catalog.is_own(entry.folder))
    left_out = () if terms or meant == candidates else tuple(each for each in candidates if each.kernel.name not in own)
    return KernelList(catalog, results, entries, broken, times, codes, in_full, own, left_out, op)


def _code_of(catalog: Catalog, name: str, time: LastTime) -> CodeState:
    """Returns the joint state of a kernel's code; for a dispatcher, of its table and of the kernel that it picked."""
    names = dict.fromkeys((name, time.kernel))
    return CodeState.together(catalog.code_state(each, time.sources.get(each, "")) for each in names)


def _matching(catalog: Catalog, entries: Sequence[CatalogEntry], term: str, op: str) -> list[CatalogEntry]:
    pattern = "*" if term == EVERY else term
    matching = [
        entry
        for entry in entries
        if term == entry.op.name
        or any(fnmatchcase(variant.label, pattern) for variant in (entry.default, *entry.presets))
    ]
    if not matching:
        select_variants(catalog, resolve_op(catalog, op, [term]), term)  # raises, naming the known kernels
    return matching


def _sources(results: Path, run_id: str) -> dict[str, str]:
    for folder in (results / run_id, results / EVIDENCE / run_id):
        with suppress(RunFormatError):
            return read_info(folder).sources
    return {}


def _text(kernels: KernelList, width: int) -> Iterator[Block]:
    if kernels.in_full:  # it says of each time what it is
        yield _long_table(kernels)
    else:
        notes = [Note(f"broken  {broken.name}: {broken.reason}", "failure") for broken in kernels.broken]
        meanings = " ".join(f"{heading}: {_MEANINGS[heading]}." for heading in _times(kernels) if heading in _MEANINGS)
        legend = [Note(meanings, "meaning"), Note(_conditions(kernels), "legend")] if kernels.times else []
        notes += legend
        columns = _columns(kernels, width)
        own = [entry for entry in kernels.entries if entry.kernel.name in kernels.own]
        others = [entry for entry in kernels.entries if entry.kernel.name not in kernels.own]
        if own:
            yield Table(columns, own, notes=[] if others else notes)
            yield from [""] if others else []
        if others or not own:
            yield Table(columns, others, "bundled" if kernels.own else "", notes=notes)
    if kernels.left_out:
        ops = "" if kernels.op else f" of {plural(len({entry.op.name for entry in kernels.left_out}), 'op')}"
        words = command("list", *(["--op", kernels.op] if kernels.op else []), "--library")
        count = plural(len(kernels.left_out), "bundled kernel")
        yield Note(f"{count}{ops}: {' '.join(words)}", "legend")
    yield ""


def _columns(kernels: KernelList, width: int) -> list[Column[CatalogEntry]]:
    run: Column[CatalogEntry] = Column("", lambda entry: _run_of(entry, kernels), "run", style="dim")
    idea: Column[CatalogEntry] = Column("", lambda entry: entry.idea, "idea", _idea, rest=True)
    return [
        Column("", lambda entry: entry.kernel.name, "kernel", style=NAME_STYLE),
        Column("", lambda entry: entry.kernel.language, "language"),
        *(_time_column(heading, texts) for heading, texts in _times(kernels).items()),
        *([run] if width >= _WIDE_ENOUGH_FOR_RUNS and kernels.times else []),
        *([idea] if width >= _WIDE_ENOUGH_FOR_IDEAS else []),
    ]


def _time_column(heading: str, texts: Mapping[str, str]) -> Column[CatalogEntry]:
    return Column("", lambda entry: texts.get(entry.kernel.name, ""), heading, right=True)


def _idea(entry: CatalogEntry) -> Text:
    need = entry.missing()
    return Text(f"needs {need.module}; {need.remedy}", style="yellow") if need else Text(entry.idea)


def _times(kernels: KernelList) -> dict[str, dict[str, str]]:
    """Returns, by heading, what is comparable over runs, by kernel; without columns that no kernel fills."""
    marks = {name: "*" if code is CodeState.CHANGED else " " for name, code in kernels.codes.items()}
    times = [(name, last) for name, last in kernels.times.items() if last.kernel_us or last.over_copy]
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


def _conditions(kernels: KernelList) -> str:
    """Returns of which runs the times are, and what the star beside one says."""
    defaults = {entry.op.name: str(entry.op.default) for entry in kernels.entries if entry.kernel.name in kernels.times}
    several = len(defaults) > 1
    workloads = ", ".join(f"{op} at {workload}" if several else f"at {workload}" for op, workload in defaults.items())
    where = f"{workloads} on {', '.join(_gpus(kernels))}"
    shown = _times(kernels).values()
    said = [f"Of the newest run that timed the kernel (`gdnbench list KERNEL` names it), {where}."] if shown else []
    if any("*" in text for texts in shown for text in texts.values()):
        said.append("*: its code has changed since.")
    if count := len(kernels.times.keys() - {name for texts in shown for name in texts}):
        said.append(f"The newest run of {plural(count, 'kernel')} has a stream time alone: `gdnbench list KERNEL`.")
    return " ".join(said)


def _long_table(kernels: KernelList) -> Table[CatalogEntry]:
    columns: list[Column[CatalogEntry]] = [
        Column("", lambda entry: entry.kernel.name, "kernel", fold=True, style=NAME_STYLE),
        Column("", lambda entry: entry.kernel.language, "language"),
        Column("", lambda entry: _what(entry, kernels), "what", fold=True),
    ]
    return Table(columns, kernels.entries)


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
        for gpu, rows in entry.dispatch.picks.items():
            picks = (f"{workload} {pick.kernel} {pick.params}".rstrip() for workload, pick in sorted(rows.items()))
            lines.append(Text(f"{gpu}: {'; '.join(picks)}", style="dim"))
        if changed := [pick.kernel for pick in entry.dispatch.rows if kernels.picks[pick] is CodeState.CHANGED]:
            text = f"of other code: {', '.join(dict.fromkeys(changed))} changed since the runs that the table names"
            lines.append(Text(text, style="yellow"))
    need = entry.missing()
    if need:
        lines.append(Text(f"not available: needs {need.module}; {need.remedy}", style="yellow"))
    return Text("\n").join(lines)


def _values(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _records(kernels: KernelList) -> list[dict[str, object]]:
    healthy = [_record(entry, kernels) for entry in kernels.entries]
    empty = dict.fromkeys(healthy[0], "") if healthy else {}
    broken = [
        {**empty, "kernel": each.name, "status": "broken", "reason": each.reason, "folder": str(each.folder)}
        for each in kernels.broken
    ]
    return [*healthy, *broken]


def _record(entry: CatalogEntry, kernels: KernelList) -> dict[str, Any]:
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
