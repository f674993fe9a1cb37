"""Prints a step: a table per workload and condition of the L2, what a layer's time is made of, or launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model.status import Status
from gdnbench.origin import out_option
from gdnbench.render.console import FittedTable, data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import factor, plus_minus, relative_half_width, time_text
from gdnbench.store.info import RunInfo, info_document, read_info
from gdnbench.store.step import LaunchWayRow, StepRow, read_launch_ways, read_steps, refuse_lost_rows
from gdnbench.wording import plural

_DROPPED = ("gap", "kernels", "host", "queued")  # the lines below the tables tell the first two, too

_LEGEND = (
    "µs a layer. step: event to event from an idle stream, host and GPU together; queued: the same, all enqueued "
    "before the GPU begins; kernels: the sum of the kernels' own times (CUPTI), ramp and tail included; "
    "gap: queued less kernels; "
    "host: to enqueue. ± is half of a 95% interval over rounds and processes; vs: that path's step over this one's."
)
_LAUNCH_LEGEND = (
    "µs a launch of an empty kernel. host: to enqueue it, 200 in a row; gap: from the start of one to the start of the "
    "next, all enqueued before the GPU begins (CUPTI)."
)


def print_step(folder: Path, *, json: bool, csv: bool) -> None:
    """Prints a stored step, or stored launches; raises RunFormatError if the run is damaged or its table missing."""
    info, steps, ways = read_info(folder), read_steps(folder), read_launch_ways(folder)
    rows: Sequence[StepRow | LaunchWayRow] = [*steps, *ways]
    if not rows:
        refuse_lost_rows(folder, info.op)
    if json:
        print_json({"run": info_document(info), "rows": [asdict(row) for row in rows], "explained": explain(steps)})
        return
    if csv:
        print_csv([asdict(row) for row in rows])
        return
    console = data_console()
    _print_headline(console, info, steps)
    if steps:
        _print_steps(console, steps)
    if ways:
        _print_ways(console, ways)
    for warning in info.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    print_next(console, ["gdnbench", "show", info.run_id, "--csv", *out_option(folder.parent)])


def _print_headline(console: Console, info: RunInfo, steps: Sequence[StepRow]) -> None:
    gpu = info.machine.get("gpu") or {}
    what = f"a step of {steps[0].layers} layers of {info.op}" if steps else "launches of an empty kernel"
    text = Text(f"{what} on {gpu.get('name') or info.gpu}", style="bold")
    settings = info.settings
    told = f": {settings['rounds']} rounds of {settings['samples']} samples"
    told += f" in {plural(settings.get('processes', 1), 'process', 'processes')}"
    if steps and steps[0].between_mib:
        told += f", {steps[0].between_mib:g} MiB read between two layers"
    text.append(told, style="not bold")
    if not info.complete:
        text.append("  (partial)", style="bold yellow")
    console.print(text)


def _print_steps(console: Console, rows: Sequence[StepRow]) -> None:
    for workload, l2 in dict.fromkeys((row.workload, row.l2) for row in rows):
        here = [row for row in rows if (row.workload, row.l2) == (workload, l2)]
        console.print(Text(f"\n{workload}, L2 {l2}", style="bold"))
        timed = [row for row in here if row.step_us is not None and not row.is_again]
        if timed:
            console.print(FittedTable(_table(timed), _DROPPED))
        for row in here:
            if row.is_again and row.speedup is not None:
                console.print(Text(_control(row), style="yellow" if row.verdict in {"faster", "slower"} else ""))
        for row in here:
            if row.status is not Status.OK and not row.is_again:
                told = f"{row.label} {row.path}: {row.reason}"
                console.print(Text(told, style="red" if row.status.is_failure else "dim"))
    lines = explain(rows)
    if lines:
        console.print(Text("\nwhat a layer's time is made of", style="bold"))
        for line in lines:
            console.print(Text(line))
    console.print(Text(f"\n{_LEGEND}", style="dim"))


def _control(row: StepRow) -> str:
    low, high, value = row.speedup_lo or math.nan, row.speedup_hi or math.nan, row.speedup or math.nan
    spread = plus_minus(relative_half_width(value, low, high))
    return f"A/A: {row.label} {row.path} against itself {factor(value)}{spread} {row.verdict}"


def _table(rows: Sequence[StepRow]) -> Table:
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    table.add_column("path", no_wrap=True)
    for heading in ("step", "queued", "kernels", "gap", "host"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("vs", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row.label),
            row.path,
            _with_interval(row.step_us, row.step_lo_us, row.step_hi_us),
            _plain(row.queued_us),
            _plain(row.kernels_us),
            _absolute(row.gap_us, row.gap_lo_us, row.gap_hi_us),
            _plain(row.host_us),
            _versus(row),
        )
    return table


def _versus(row: StepRow) -> Text:
    if row.speedup is None or row.speedup_lo is None or row.speedup_hi is None:
        return Text("")
    spread = plus_minus(relative_half_width(row.speedup, row.speedup_lo, row.speedup_hi))
    styles = {"faster": "green", "slower": "red", "unclear": "yellow"}
    return Text(f"{factor(row.speedup)}{spread} {row.verdict}", style=styles.get(row.verdict, ""))


def _plain(value: float | None) -> str:
    return "" if value is None else time_text(value)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _plain(value)
    return f"{time_text(value)}{plus_minus(relative_half_width(value, low, high))}"


def _absolute(value: float | None, low: float | None, high: float | None) -> str:
    """Formats a difference with half of its interval in microseconds: a share of what may be 0 says nothing."""
    if value is None or low is None or high is None or math.isinf(high - low):
        return _plain(value)
    return f"{time_text(value)} ±{time_text((high - low) / 2)}"


def explain(rows: Sequence[StepRow]) -> list[str]:
    """Describes the measured differences between paths, a line each."""
    lines = []
    groups = dict.fromkeys((row.label, row.workload, row.l2) for row in rows)
    for label, workload, l2 in groups:
        here = [row for row in rows if (row.label, row.workload, row.l2, row.is_again) == (label, workload, l2, 0)]
        timed = {row.path: row for row in here if row.step_us is not None}
        told = [_made_of(row) for row in timed.values() if row.path in {"python", "c-loop", "graph"}]
        told += [line for row in timed.values() if (line := _saves(row))]
        walk, graph = timed.get("persistent"), timed.get("graph")
        if walk and graph and walk.queued_us is not None and graph.queued_us is not None:
            less = graph.queued_us - walk.queued_us
            told.append(
                f"persistent, queued, takes {_signed(-less)} µs a layer beside the graph's nodes: "
                "what their gaps, ramps and tails are worth"
            )
        if any(told):
            lines += [f"{label}, {workload}, L2 {l2}:", *(f"  {line}" for line in told if line)]
    return lines


def _made_of(row: StepRow) -> str:
    parts = []
    if row.kernels_us is not None:
        parts.append(f"{time_text(row.kernels_us)} kernels")
    if row.gap_us is not None:
        parts.append(f"{_absolute(row.gap_us, row.gap_lo_us, row.gap_hi_us)} between them")
    if row.waits_us is not None:
        parts.append(f"{_absolute(row.waits_us, row.waits_lo_us, row.waits_hi_us)} waiting for the host")
    return f"{row.path} {_plain(row.step_us)} µs = {' + '.join(parts)}" if len(parts) > 1 else ""


def _saves(row: StepRow) -> str:
    """Returns what a path saves over its counterpart, or that the interval includes 0; empty if unknown."""
    if row.saved_us is None or row.saved_lo_us is None or row.saved_hi_us is None:
        return ""
    if row.saved_lo_us <= 0 <= row.saved_hi_us:
        return f"{row.path} and {row.versus} cannot be told apart"
    verb, size = ("saves", row.saved_us) if row.saved_us > 0 else ("costs", -row.saved_us)
    half = (row.saved_hi_us - row.saved_lo_us) / 2
    return f"{row.path} {verb} {time_text(size)} ±{time_text(half)} µs a layer over {row.versus}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{time_text(abs(value))}"


def _print_ways(console: Console, rows: Sequence[LaunchWayRow]) -> None:
    table = plain_table()
    table.add_column("way", no_wrap=True)
    for heading in ("arguments", "host", "gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.status is Status.OK:
            table.add_row(
                row.way,
                str(row.arguments or "own"),
                _with_interval(row.host_us, row.host_lo_us, row.host_hi_us),
                _with_interval(row.gap_us, row.gap_lo_us, row.gap_hi_us),
            )
    console.print(table)
    for row in rows:
        if row.status is not Status.OK:
            console.print(Text(f"{row.way}, {row.arguments} arguments: {row.reason}", style="dim"))
    console.print(Text(f"\n{_LAUNCH_LEGEND}", style="dim"))
