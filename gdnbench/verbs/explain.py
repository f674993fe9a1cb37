"""`gdnbench explain`: why is it slow, and what is to be tried next? As text with evidence, or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.select import resolve_op
from gdnbench.diagnose.evidence import Basis, Cause, Evidence, EvidenceLine
from gdnbench.diagnose.experiment import measure, profile
from gdnbench.diagnose.gather import Question, gather, rank
from gdnbench.diagnose.launch import RunTimes
from gdnbench.diagnose.strategies import JudgedStrategy, StrategyState, judge_strategies
from gdnbench.ledger.file import read_ledger
from gdnbench.model.case import CodeState
from gdnbench.model.gpu import format_serialized
from gdnbench.origin import LEDGER, PROFILES, RESULTS, path_at_origin, with_folders
from gdnbench.profile.ncu.lines import stored_lines
from gdnbench.profile.ncu.quantities import LaunchProfile
from gdnbench.render.console import plain_table
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import OTHER_CODE, other_code, percent, time_text
from gdnbench.report.ncu import value_text
from gdnbench.report.work import Work, work_blocks, work_of
from gdnbench.verbs import options
from gdnbench.verbs.progress import watch


def explain(
    ctx: typer.Context,
    kernels: options.KernelArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: Annotated[str, typer.Option(help="auto, or a model (h200, b200), which need not be here.")] = "auto",
    shape: Annotated[list[str] | None, typer.Option(metavar="AXIS=N", help="One workload: B=8, lengths=8192.")] = None,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A report of ncu's: .ncu-rep or .csv.")
    ] = None,
    strategies: Annotated[
        bool, typer.Option("--strategies", help="Instead of causes: usual ways to speed it up, judged.")
    ] = False,
    ledger: options.LedgerOption = LEDGER,
    profiles: options.ProfilesOption = PROFILES,
    results: options.ResultsOption = RESULTS,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Say what takes a kernel's time, and what to try next. Needs no GPU.

    At most three causes, ranked by the share of the time that each explains, with
    the evidence and an experiment to run. Reads the newest profile of `gdnbench ncu`,
    the last run, and what the compiler makes of the kernel: the most with all three.
    Of a kernel of several launches, each launch is explained by itself.

    --strategies walks a list of ways to make kernels faster, the first to try first:
    untried, tried, ruled out, or unknown where a profile is missing, each with its
    evidence: resources, counters, and entries of the ledger on the kernel.
    """
    options.check_mode(ctx, "strategies", ("ledger",), ())
    label = options.one_term(kernels, kernel, "gdnbench explain decode-v4")
    catalog = load_catalog()
    question = Question(label, resolve_op(catalog, op, [label]), options.sizes(shape), gpu, file, profiles, results)
    with watch(quiet=quiet) as observer:
        evidence = gather(catalog, question, observer)
    if strategies:
        judged = judge_strategies(evidence, read_ledger(ledger).values())
        print_answer(strategies_answer(evidence, judged, results, profiles), json=json)
        return
    of_launches = [rank(launch) for launch in evidence.launches]
    answer = explained_answer(evidence, rank(evidence), of_launches, results, profiles)
    print_answer(answer, json=json)


def strategies_answer(evidence: Evidence, judged: Sequence[JudgedStrategy], results: Path, profiles: Path) -> Answer:
    """Returns every strategy with its state and evidence, and experiments for those that are untried."""
    placed = [(each, each.experiment and with_folders(each.experiment.command, results, profiles)) for each in judged]
    wanted = [command for state in _NEXT for each, command in placed if command and each.state is state]
    following = wanted[0] if wanted else with_folders(measure(evidence).command, results, profiles)

    def text(width: int) -> Iterator[Block]:
        yield Note(f"{evidence.label}  {evidence.workload}", "title")
        if evidence.launches:
            yield Note(f"facts of {evidence.launches[0].entry_name}, the longest of its launches")
        yield Table(_STRATEGY_COLUMNS, judged)
        for each, command in placed:
            if command and each.experiment and each.state is StrategyState.UNTRIED:
                yield Note(Text.assemble((f"{each.strategy.title}: ", "bold"), shlex.join(command)), whole=True)
                yield from _prose(f"{'':{_INDENT}}{each.experiment.why}", min(width, _WIDEST), _INDENT, "dim")

    def document() -> dict[str, Any]:
        rows = [
            {
                "strategy": each.strategy.name,
                "title": each.strategy.title,
                "state": each.state.value,
                "evidence": list(each.evidence),
                "command": shlex.join(command) if command else None,
            }
            for each, command in placed
        ]
        head = {"kernel": evidence.variant.kernel, "label": evidence.label, **evidence.workload.cells}
        return {**head, "strategies": rows, "next": shlex.join(following)}

    return Answer(text=lambda width: list(text(width)), document=document, next=following)


_NEXT = (StrategyState.UNTRIED, StrategyState.UNKNOWN)
_STATE_STYLES = {StrategyState.UNTRIED: "green", StrategyState.TRIED: "", StrategyState.RULED_OUT: "dim"}

_STRATEGY_COLUMNS: list[Column[JudgedStrategy]] = [
    Column("", lambda row: row.strategy.name, "strategy"),
    Column("", lambda row: Text(row.state, style=_STATE_STYLES.get(row.state, "yellow")), "state"),
    Column(
        "",
        lambda row: "; ".join(row.evidence) or ("a profile tells" if row.experiment else "nothing tells"),
        "evidence",
        fold=True,
    ),
]


def explained_answer(
    evidence: Evidence, findings: Sequence[Cause], of_launches: Sequence[Sequence[Cause]], results: Path, profiles: Path
) -> Answer:
    """Returns the findings, also of each of several launches; `results` and `profiles` are for proposed commands."""
    following = with_folders(_next(evidence, findings, of_launches), results, profiles)

    def placed(found: Sequence[Cause]) -> list[Cause]:
        experiments = (
            replace(each.experiment, command=with_folders(each.experiment.command, results, profiles)) for each in found
        )
        return [replace(each, experiment=experiment) for each, experiment in zip(found, experiments, strict=True)]

    parts = [(evidence, placed(findings))]
    parts += [(launch, placed(found)) for launch, found in zip(evidence.launches, of_launches, strict=True)]
    launches = {"launches": [_launch_document(*part) for part in parts[1:]]} if parts[1:] else {}
    return Answer(
        text=lambda width: [block for part in parts for block in _text(*part, min(width, _WIDEST))],
        document=lambda: (
            _findings_document(*parts[0]) | launches | {"work": _work(evidence).document, "next": shlex.join(following)}
        ),
        next=following,
    )


def _next(evidence: Evidence, findings: Sequence[Cause], of_launches: Sequence[Sequence[Cause]]) -> tuple[str, ...]:
    """Returns the command that adds or renews evidence, else an experiment, for the slowest launch of several."""
    profiled = all(launch.profile for launch in evidence.launches) if evidence.launches else evidence.profile
    if not profiled or evidence.profile_code is CodeState.CHANGED:
        return profile(evidence).command
    if of_launches and of_launches[0]:
        return of_launches[0][0].experiment.command
    if evidence.own_times is None or not findings:
        return measure(evidence).command
    return findings[0].experiment.command


_WIDEST = 80  # columns: sentences are hard to read in wider ones
_INDENT, _TRY, _NAMES = 3, 8, 8
_NO_CAUSE = "no cause stands out: no rule finds one that explains a twentieth of the time"
NO_PROFILE = "; most rules need a profile, and none is stored"

_SHARES: dict[Basis, str] = {
    "counters": "{:.0%} of {} cycles",
    "times": "{:.0%} of {} time",
    "code": "up to {:.0%} of {} time, by the code",
}
_CLOCKS = {
    "cupti": "by CUPTI, in whole calls",
    "ncu": "by ncu, which replays each launch by itself after a flush of the caches: what it reads of the one before "
    "comes from DRAM there",
}


def _text(evidence: Evidence, findings: Sequence[Cause], room: int) -> Iterator[Block]:
    """Yields a kernel's or a launch's answer, top to bottom; commands stay in one line, so that they can be copied."""
    times = evidence.launch_times
    if evidence.entry_name:
        share = f"  {times.share(evidence.entry_name):.0%} of the launches' time" if times else ""
        yield Note(Text.assemble((evidence.entry_name, "bold"), share))
    else:
        yield Note(f"{evidence.label}  {evidence.workload}", "title")
    for name, text in _known(evidence):
        yield from _prose(f"{name:<{_NAMES}}{text}", room, _NAMES, "" if name else "yellow")
    for warning in () if evidence.entry_name else evidence.warnings:
        yield from _prose(f"warning: {warning}", room, _NAMES, "yellow")
    if evidence.launches:
        yield from _launch_times(evidence, room)
    whose = "its" if evidence.entry_name else "the"
    for place, finding in enumerate(findings, start=1):
        share = _SHARES[finding.basis].format(finding.share, whose) + _whose(evidence.code_of(finding.basis))
        yield Note("")
        yield Note(Text.assemble((f"{place}. {finding.title}", "bold"), f"  ({share})"), whole=True)
        yield Padding(_facts(finding.facts, room - _INDENT), (0, 0, 0, _INDENT), expand=False)
        yield from _prose(f"{'':{_INDENT}}{finding.meaning}", room, _INDENT)
        command = shlex.join(finding.experiment.command)
        yield Note(Text.assemble(" " * _INDENT, ("try: ", "bold"), command), whole=True)
        yield from _prose(f"{'':{_TRY}}{finding.experiment.why}", room, _TRY, "dim")
        for hint in evidence.hints_on(finding.rule):
            yield from _prose(f"{'':{_INDENT}}for this op: {hint}", room, _INDENT)
    if not (findings or evidence.launches):
        yield Note(_NO_CAUSE + ("" if evidence.profile else NO_PROFILE))
    yield Note("")
    if not evidence.entry_name:
        yield from work_blocks(_work(evidence))
        yield Note("")


def _work(evidence: Evidence) -> Work:
    return work_of(evidence.entry, evidence.variant, evidence.workload, evidence.gpu)


def _launch_times(evidence: Evidence, room: int) -> Iterator[Block]:
    times = evidence.launch_times
    names = [launch.entry_name for launch in evidence.launches]
    if times is None:
        unknown = "nothing stored tells what share of the time each takes"
        yield from _prose(f"launches: {', '.join(names)}; {unknown}", room, 10)
        return
    rows = [(name, time_text(times.times_us[name]), f"{times.share(name):.0%}") for name in names]
    rows.append(("sum", time_text(times.total_us), ""))
    columns: list[Column[tuple[str, str, str]]] = [
        Column("", lambda row: Text(row[0], style="dim" if row is rows[-1] else ""), "launch"),
        Column("", lambda row: row[1], "µs", right=True),
        Column("", lambda row: row[2], "share", right=True),
    ]
    yield Table(columns, rows)
    source = f"{_CLOCKS[times.clock]}{_whose(times.code)}: {path_at_origin(times.path)}"
    yield from _prose(source, room, 0, "dim")


def _prose(text: str, room: int, indent: int, style: str = "") -> Iterator[Note]:
    for line in wrap(text, room, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False):
        yield Note(Text(line, style=style), whole=True)


def _known(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yields name and text of each known fact; a line without a name qualifies the one above."""
    profile, compiled, measured, cycles = evidence.profile, evidence.compiled, evidence.measured, evidence.cycles
    if profile:
        duration = value_text(evidence.counter("duration_us"), "µs")
        where = "" if evidence.entry_name else f": {evidence.profile_path}"  # it stands once, above the launches
        yield ("ncu", f"{profile.gpu}, {profile.function}, {duration} µs{where}")
    elif evidence.launches and evidence.profile_path:
        yield ("ncu", str(evidence.profile_path))
    if (profile or evidence.launches) and not evidence.entry_name and evidence.profile_code is CodeState.CHANGED:
        yield ("", other_code(evidence.label))
    if cycles:
        parts = (
            ("the launch", cycles.launch),
            ("SMs unevenly busy", cycles.uneven),
            ("no warp", cycles.empty),
            ("warps wait", cycles.waiting),
            ("issuing", cycles.issuing),
        )
        yield ("cycles", ", ".join(f"{name} {share:.0%}" for name, share in parts))
    elif profile:
        yield ("cycles", "the report lacks counters of them: profile with `--set full`")
    if compiled:
        launch = evidence.launch or "no GPU"
        yield ("code", f"{compiled.arch}, {compiled.resources.registers} registers, {launch}")
        if compiled.build.serialized_because:
            yield ("", format_serialized(compiled.build.serialized_because))
    if evidence.profile and evidence.profile_path and (lines := _lines(evidence.profile_path, evidence.profile)):
        yield ("lines", lines)
    if measured and not evidence.entry_name:
        yield ("run", _times(measured))
        if measured.code is CodeState.CHANGED:
            yield ("", other_code(evidence.label))
        if measured.gain:
            yield ("gain", _gain(measured))
    yield from _of_gpu(evidence)


def _of_gpu(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yields what measured costs of the GPU make of the kernel: trips to memory, and its traffic at the best rate."""
    if evidence.dram_trips and evidence.latencies:
        of_code = f"; its code makes {evidence.dependent_loads} in a row" if evidence.dependent_loads else ""
        found = f"{evidence.latencies.dram_ns:,.0f} ns on the {evidence.latencies.gpu_name}"
        yield ("trips", f"its time has room for {evidence.dram_trips:.1f} trips to DRAM in a row, {found}{of_code}")
    rate = evidence.latencies.read_bytes_per_s if evidence.latencies and not evidence.entry_name else None
    if rate:
        least_us = _work(evidence).least_bytes / rate * 1e6
        yield (
            "reads",
            f"at most {rate / 1e9:,.0f} GB/s from DRAM, as measured: its least traffic takes {least_us:.3g} µs",
        )


def _lines(path: Path, profile: LaunchProfile) -> str:
    """Returns the source lines at which warps stood most often, and why; empty without samples."""
    lines = stored_lines(path, profile.function)
    samples = sum(line.total("samples") for line in lines)
    found = (
        f"{line.line} {percent(line.total('samples') / samples)}, {line.stall[0]}" for line in lines[:3] if samples
    )
    return "; ".join(found)


def _times(measured: RunTimes) -> str:
    floors = [(label, measured.times_us[label]) for label in (measured.copy, measured.empty) if label]
    whose = dict.fromkeys(measured.changed, f" ({OTHER_CODE})")
    others = "".join(f"; {label} {time_text(time)}{whose.get(label, '')}" for label, time in floors)
    return f"{measured.run_id}: {time_text(measured.time_us)} µs{others}"


def _gain(measured: RunTimes) -> str:
    bound = f"{measured.copy} takes" if measured.flops_us is None else "FLOPs at the GPU's peak take"
    taken = f"{bound} {time_text(measured.bound_us or 0)} of {time_text(measured.time_us)} µs"
    return f"at most {measured.gain:.0%}{_whose(measured.code)}: {taken}"


def _whose(code: CodeState) -> str:
    return f", {OTHER_CODE}" if code is CodeState.CHANGED else ""


def _facts(facts: Sequence[EvidenceLine], width: int) -> RichTable:
    table = plain_table(header=False)
    table.width = width
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for each in facts:
        table.add_row(Text(each.title), _value(each), Text(each.note, style="dim"))
    return table


def _value(each: EvidenceLine) -> str:
    text = value_text(float(each.value), each.unit)
    return text if each.unit in {"B", "B/s", "x", ""} else f"{text} {each.unit}"


_OF_LAUNCHES = {"functions_us", "folder"}  # of a run's data: they stand with the launches


def _findings_document(evidence: Evidence, findings: Sequence[Cause]) -> dict[str, Any]:
    measured, cycles, compiled = evidence.measured, evidence.cycles, evidence.compiled
    times, launches = evidence.launch_times, evidence.launches
    run = {name: value for name, value in asdict(measured).items() if name not in _OF_LAUNCHES} if measured else None
    profile = evidence.profile or next((launch.profile for launch in launches if launch.profile), None)
    return {
        "kernel": evidence.variant.kernel,
        "label": evidence.label,
        **evidence.workload.cells,
        "params": dict(evidence.variant.params),
        "evidence": {
            "profile": evidence.profile_path,
            "profile_code": evidence.profile_code if profile else None,
            "gpu": profile.gpu if profile else measured.gpu if measured else None,
            "function": evidence.profile.function if evidence.profile else None,
            "arch": compiled.arch if compiled else None,
            "run": run,
            **({"launch_times": times and asdict(times)} if evidence.launches else {}),
        },
        "launch": asdict(evidence.launch) if evidence.launch else None,
        "account": asdict(cycles) if cycles else None,
        "gain": measured.gain if measured else None,
        "dram_trips": evidence.dram_trips,
        "findings": [_finding(evidence, finding) for finding in findings],
        "warnings": evidence.warnings,
    }


def _launch_document(launch: Evidence, findings: Sequence[Cause]) -> dict[str, Any]:
    times, document = launch.launch_times, _findings_document(launch, findings)
    evidence = {name: value for name, value in document["evidence"].items() if name != "run"}
    return {
        "entry": launch.entry_name,
        "time_us": times.times_us[launch.entry_name] if times else None,
        "share": times.share(launch.entry_name) if times else None,
        "evidence": evidence,
        **{name: document[name] for name in ("launch", "account", "findings")},
    }


def _finding(evidence: Evidence, finding: Cause) -> dict[str, Any]:
    experiment = {"command": shlex.join(finding.experiment.command), "why": finding.experiment.why}
    return {
        **asdict(finding),
        "code": evidence.code_of(finding.basis),
        "experiment": experiment,
        "hints": evidence.hints_on(finding.rule),
    }
