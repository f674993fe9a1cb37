"""`gdnbench ncu`: what do the hardware counters say? Also by source line, and for a language model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.select import resolve_op
from gdnbench.diagnose.evidence import LATENCY_PCT
from gdnbench.diagnose.launch import cycle_breakdown, profiled_launch
from gdnbench.errors import UsageError
from gdnbench.origin import PROFILES
from gdnbench.profile.ncu.functions import (
    Function,
    FunctionDifference,
    accesses,
    check_read,
    compare_functions,
    functions_of,
    pipes_pct,
    traffic_bytes,
)
from gdnbench.profile.ncu.lines import COUNTED, ProfiledInstruction, ProfiledLine, profiled_lines, stored_lines
from gdnbench.profile.ncu.quantities import BY_KEY, QUANTITIES, STALL_MEANINGS
from gdnbench.profile.ncu.report import (
    NcuRequest,
    find_pair,
    find_sources,
    named_kernels,
    open_sources,
    read_instructions,
)
from gdnbench.render.console import print_text
from gdnbench.render.digest import Digest, fit, to_text
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import CodeOf, other_code, percent
from gdnbench.report.ncu import (
    NOT_A_TIME,
    change_text,
    differences_answer,
    functions_answer,
    is_changed,
    subject,
    workload_text,
)
from gdnbench.verbs import options
from gdnbench.verbs.progress import watch


def ncu(
    kernels: options.ProfiledArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    profile: options.ProfileOption = None,
    diff: Annotated[
        str, typer.Option(metavar="OTHER", help="Show what moved from KERNEL to this one, a kernel or a file.")
    ] = "",
    stored: Annotated[bool, typer.Option("--import", help="Read reports (.ncu-rep, .csv); needs no GPU.")] = False,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Launches to profile of each; 1 by default, 3 with --diff.")
    ] = None,
    seed: options.InputsSeedOption = 0,
    path: Annotated[Path | None, typer.Option("--ncu", help="Nsight Compute; found by itself by default.")] = None,
    profiles: options.ProfilesOption = PROFILES,
    limit: options.KernelLimitOption = 300.0,
    for_model: Annotated[
        bool, typer.Option("--for-model", help="Print it for a language model: what bounds it and what it does most.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print what each source line costs, beside its instructions.")
    ] = False,
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Put the hardware counters of kernels side by side, with Nsight Compute.

    Each kernel is launched in a process of its own, warmed, and profiled alone: every
    section, the clocks as they are, the caches flushed before each replay. The reports
    stay in profiles/ncu, with their metrics as CSV beside them.

    --for-model tells a profile to a language model in less than 4 KB of JSON: what
    bounds the kernel, where its cycles go, bytes by level, pipes, stalls, occupancy
    and launch, the largest first; with --diff, what changed.

    --lines shows where warps stood when they were sampled and why, and what each line
    moves, by source line and the instructions behind it.
    """
    if for_model and csv:
        raise UsageError("--for-model and --csv are two forms", "leave one of them out; --for-model goes with --json")
    if lines and (diff or for_model or csv):
        raise UsageError("--lines is a table of its own, or --json", "leave out --diff, --for-model and --csv")
    names = options.some_terms(kernels, kernel, "gdnbench ncu decode-v4")
    catalog = load_catalog()
    profiled = [*named_kernels(names, stored=stored), *named_kernels([diff], stored=False)]
    wanted = NcuRequest(
        catalog=catalog,
        op=resolve_op(catalog, op, profiled) if profiled else op,
        axes=options.sizes(shape),
        inputs=options.joined(profile),
        gpu=gpu,
        ncu=path,
        profiles=profiles,
        repeat=repeat or (3 if diff else 1),
        seed=seed,
        limit_s=limit,
    )
    sources = find_pair(wanted, names, diff, stored=stored) if diff else find_sources(wanted, names, stored=stored)
    with watch(quiet=quiet) as observer:
        reports = open_sources(wanted, sources, observer)
    columns = [functions_of(report) for report in reports]
    functions = [function for column in columns for function in column]
    if diff:
        differences = compare_functions(columns[0], columns[1])
        answer_of_differences = model_difference_answer if for_model else differences_answer
        answer = answer_of_differences(differences, catalog.code_state)
    elif lines:
        found = {report.path: read_instructions(report.path, path) for report in reports}
        answer = lines_answer(functions, found, catalog.code_state)
    else:
        answer = (model_answer if for_model else functions_answer)(functions, catalog.code_state)
    print_answer(answer, json=json, csv=csv)
    check_read(functions)


_MOST_LINES, _MOST_INSTRUCTIONS = 12, 3
_LEGEND = (
    "samples: of warps that stood at it, and why most of them did; executed: by warps; sectors of global memory, "
    "and wavefronts of shared memory, in brackets those that no coalesced or conflict-free access would need. "
    "A wait counts for the instruction that waits, not for the load that it waits for."
)
Row = tuple[str, ProfiledLine]
"""A source line or, as a line of its own, one of its instructions, under its title."""


def lines_answer(
    functions: Sequence[Function], found: Mapping[Path, Sequence[ProfiledInstruction]], code_of: CodeOf
) -> Answer:
    """Returns the source lines of each function's first launch; `found` has the instructions of each report."""
    lines = [(each, profiled_lines(found[each.path], each.name)) for each in functions]
    label, workload = functions[0].label, functions[0].workload
    return Answer(
        text=lambda _width: [block for each, its in lines for block in _blocks(each, its, code_of)],
        document=lambda: [_document(each, its) for each, its in lines],
        next=["gdnbench", "inspect", label, *workload.options, "--sass"] if label and workload else [],
    )


def _blocks(function: Function, lines: Sequence[ProfiledLine], code_of: CodeOf) -> Iterator[Block]:
    samples = sum(line.total("samples") for line in lines)
    count = sum(len(line.instructions) for line in lines)
    yield Note(f"{subject(function)}: {function.name}", "title")
    yield Note(f"{samples:,} samples of warps at {count:,} instructions of {len(lines):,} source lines", "legend")
    if is_changed(function, code_of):
        yield Note(other_code(function.label), "warning")
    rows = [row for line in lines[:_MOST_LINES] for row in _rows(line)]
    yield Table(_columns(rows, max(samples, 1)), rows)
    if len(lines) > _MOST_LINES:
        rest = sum(line.total("samples") for line in lines[_MOST_LINES:]) / max(samples, 1)
        yield Note(f"{len(lines) - _MOST_LINES} further lines have {percent(rest)} of the samples", "legend")
    for reason in dict.fromkeys(line.stall[0] for line in lines[:_MOST_LINES]):
        if reason in STALL_MEANINGS:
            yield Note(f"{reason}: {STALL_MEANINGS[reason]}", "legend")
    yield Note(_LEGEND, "legend")


def _rows(line: ProfiledLine) -> Iterator[Row]:
    yield line.line or "no line", line
    for each in line.instructions[:_MOST_INSTRUCTIONS]:
        if each.samples or each.sectors or each.wavefronts:
            yield f"  {each.address:04x} {each.sass}", ProfiledLine(line.line, (each,))


def _columns(rows: Sequence[Row], samples: int) -> list[Column[Row]]:
    def counter(name: str, drop: int = 0) -> Column[Row]:
        return Column("", lambda row: row[1].total(name), name, lambda row: _counted(row[1], name), drop, right=True)

    def share(row: Row) -> str:
        return percent(row[1].total("samples") / samples) if row[1].total("samples") else ""

    def stall(row: Row) -> str:
        reason, part = row[1].stall
        return f"{reason} {percent(part)}" if 0 < part < 1 else reason

    return [
        Column("", lambda row: row[0], "line, its instructions", rest=True),
        Column("", share, "samples", right=True),
        Column("", stall, "most wait for"),
        counter("executed", 2),
        *(counter(name, 1) for name in ("sectors", "wavefronts") if any(row[1].total(name) for row in rows)),
    ]


def _counted(line: ProfiledLine, name: str) -> str:
    """Formats a counter, with what of it is not needed; empty for 0."""
    value = line.total(name)
    excess = value - line.total(f"ideal_{name}") if f"ideal_{name}" in COUNTED else 0
    return f"{value:,} ({excess:,})" if excess > 0 else f"{value:,}" if value else ""


def _document(function: Function, lines: Sequence[ProfiledLine]) -> dict[str, Any]:
    return {
        **{"kernel": function.label, "function": function.name, "gpu": function.gpu, "report": str(function.path)},
        "lines": [
            {
                "line": line.line,
                **{name: line.total(name) for name in COUNTED},
                "stall": line.stall[0],
                "instructions": [msgspec.to_builtins(each) for each in line.instructions],
            }
            for line in lines
        ],
    }


_LIMIT_BYTES = 3800
"""Of a function's or a pair's text: less than that of a tool's result, which has its exit code beside it."""

_UNITS = {"DRAM": "dram_pct", "L2": "l2_pct", "L1 and shared memory": "l1_pct", "SM": "sm_pct"}
_LEAST_PCT = 1.0  # of a peak or of the time, below which a share says nothing
_MOST_NAMED_LINES = 6  # of the source, that are named
_PARTS = {
    "waiting": "schedulers whose warps all wait",
    "issuing": "schedulers that issue",
    "empty": "schedulers without a warp on SMs with work",
    "uneven": "SMs without work while the busiest has some",
    "launch": "no SM works: the launch and its end",
}
"""Meanings of the parts of `CycleBreakdown`."""


def model_answer(functions: Sequence[Function], code_of: CodeOf) -> Answer:
    """Returns a text for each function."""
    return _answer([Digest(_function(each, code_of), "facts") for each in functions])


def model_difference_answer(differences: Sequence[FunctionDifference], code_of: CodeOf) -> Answer:
    """Returns a text of what changed for each pair."""
    return _answer([Digest(_difference(each, code_of), "changes") for each in differences])


def _answer(digests: Sequence[Digest]) -> Answer:
    documents = [fit({}, digest, limit_bytes=_LIMIT_BYTES) for digest in digests]
    return Answer(
        text=lambda _width: [lambda _console: print_text("\n".join(map(to_text, documents)))],
        document=lambda: documents,
    )


def _function(function: Function, code_of: CodeOf) -> dict[str, Any]:
    """Returns what bounds a function, and facts by kind, the most important kind first, the largest of each first."""
    facts = {
        "time": _group(function, "time"),
        "cycles_pct": _cycles_pct(function),
        "stalls_cycles_per_instruction": _stalls(function),
        "source_lines": _lines(function),
        "bytes": function.medians(traffic_bytes),
        "pipes_pct_of_peak": {name: pct for name, pct in function.medians(pipes_pct).items() if pct >= _LEAST_PCT},
        **{group: _group(function, group) for group in ("warps", "launch", "memory", "instructions")},
        "warp_instructions": function.medians(accesses),
    }
    return {
        **_subject(function),
        "launches": len(function.profiles),
        "bound_by": nearest_peak(function),
        "note": NOT_A_TIME,
        "warnings": _warnings([function], code_of),
        "facts": [{name: found} for name, found in facts.items() if found],
    }


def _difference(difference: FunctionDifference, code_of: CodeOf) -> dict[str, Any]:
    before, after = difference.before, difference.after
    changes = [
        {
            group: {
                change.key: [*change.medians, change_text(change), *filter(None, [change.verdict])]
                for change in changed
            }
        }
        for group, changed in groupby(difference.changes, lambda change: change.group)
    ]
    spread = "by more than the launches of each spread" if difference.has_spread else "of one launch each: by chance?"
    return {
        "before": _subject(before),
        "after": _subject(after),
        "changed": f"{len(difference.changes)} of {difference.compared} quantities, {spread}",
        "bound_by": [nearest_peak(before), nearest_peak(after)],
        "note": NOT_A_TIME,
        "warnings": _warnings([before, after], code_of),
        "changes": changes,
    }


def _subject(function: Function) -> dict[str, str]:
    return {
        "kernel": function.label,
        "workload": workload_text(function.workload),
        "gpu": function.gpu,
        "function": function.name,
    }


def _warnings(functions: Sequence[Function], code_of: CodeOf) -> list[str]:
    return [other_code(one.label) for one in functions if is_changed(one, code_of)]


def nearest_peak(function: Function) -> str:
    """Names the unit nearest to its peak, or latency if none comes near; by the line of ncu's rule `SOLBottleneck`."""
    known = {name: value for name, key in _UNITS.items() if not math.isnan(value := _median(function, key))}
    if not known:
        return "not known: the report has no unit's throughput"
    unit = max(known, key=known.__getitem__)
    text = f"{unit} at {known[unit]:.1f}% of its peak"
    return text if known[unit] >= LATENCY_PCT else f"latency ({text}, less than {LATENCY_PCT:.0f}%)"


def _cycles_pct(function: Function) -> dict[str, float]:
    """Returns the mean shares of the launches' cycles, largest first; empty if a report lacks a counter for it."""
    found = []
    for profile in function.profiles:
        launch = profiled_launch(profile)
        breakdown = cycle_breakdown(profile, launch) if launch else None
        if breakdown is None:
            return {}
        found.append(breakdown)
    shares = {meaning: 100 * statistics.mean(getattr(each, name) for each in found) for name, meaning in _PARTS.items()}
    return dict(sorted(shares.items(), key=lambda share: -share[1]))


def _stalls(function: Function) -> dict[str, float]:
    found = function.stalls()
    return {reason: cycles for reason, cycles in found.items() if 100 * cycles >= _LEAST_PCT * sum(found.values())}


def _lines(function: Function) -> dict[str, str]:
    """Returns where warps stand, by source line: the share of the samples, why most do, and the first instruction."""
    lines = stored_lines(function.path, function.name)
    samples = sum(line.total("samples") for line in lines)
    return {
        line.line: f"{line.total('samples') / samples:.0%}, {line.stall[0]}, {line.instructions[0].sass}"
        for line in lines[:_MOST_NAMED_LINES]
        if line.total("samples")
    }


def _group(function: Function, group: str) -> dict[str, float]:
    found = {quantity.key: _median(function, quantity.key) for quantity in QUANTITIES if quantity.group == group}
    return {key: value for key, value in found.items() if not math.isnan(value)}


def _median(function: Function, key: str) -> float:
    value = function.median(BY_KEY[key])
    return math.nan if value is None else value
