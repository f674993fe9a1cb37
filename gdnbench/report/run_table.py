"""A run as people read it: one table a shape, and below it what qualifies it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model import Measurement, Role, Shape, Status, Versus
from gdnbench.report.console import fits
from gdnbench.report.fitted import Fitted
from gdnbench.store import RunInfo

WIDE_ENOUGH_FOR_NOTES = 120  # columns; in a narrower terminal notes follow the table

VERDICT_STYLES = {"faster": "bold green", "slower": "bold red", "same": "", "unclear": "yellow"}


def print_tables(
    console: Console,
    info: RunInfo,
    measurements: Sequence[Measurement],
    folder: Path,
    below: Callable[[Shape], None] = lambda _shape: None,
    legend: Sequence[str] = (),
) -> None:
    """Prints a run: what it is, its warnings, a table for each shape, and where it is stored.

    Args:
        console: where to.
        info: the run.
        measurements: its rows.
        folder: where it is stored.
        below: prints what belongs below a shape's table.
        legend: explains that.
    """
    console.print(_headline(info))
    for warning in info.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    for shape in dict.fromkeys(each.case.shape for each in measurements):
        _print_shape(console, info, [each for each in measurements if each.case.shape == shape], shape)
        below(shape)
    console.print()
    console.print(Text("\n").join([_legend(info), *map(Text, legend)]), style="dim")
    console.print(Text(f"stored in {folder}", style="dim"), soft_wrap=True)


def _headline(info: RunInfo) -> Text:
    gpu = info.machine.get("gpu") or {}
    device = gpu.get("name") or "the CPU (no GPU here, or none wanted)"
    settings = info.settings
    timer = "NVBench, cold L2" if info.on_gpu else "warm calls"
    text = Text(f"{info.op} on {device}", style="bold")
    text.append(f": {timer}, {settings['rounds']} rounds of up to {settings['samples']} samples", style="not bold")
    if not info.complete:
        text.append("  (partial)", style="bold yellow")
    return text


def _print_shape(console: Console, info: RunInfo, rows: list[Measurement], shape: Shape) -> None:
    shown = [row for row in rows if row.timing and row.role is not Role.CONTROL]
    shown.sort(key=lambda row: row.timing.time_us if row.timing else math.inf)
    console.print()
    console.print(Text(f"{shape}  ({max(row.nbytes for row in rows) / 1e6:.3g} MB)", style="bold"))
    if shown:
        beside = console.width >= WIDE_ENOUGH_FOR_NOTES
        table = _table(info, shown, beside)
        # Where notes stand beside the rows, it is they that are folded.
        table = table if beside or fits(console, table) else _table(info, shown, beside, broken=True)
        console.print(table if beside else Fitted(table, ("MHz", "GB/s", "SOL", _versus_heading(info))))
        if not beside:
            _print_notes(console, shown)
    print_controls(console, rows)
    print_failures(console, [row for row in rows if row.status is not Status.OK and not _is_shadow(row, rows)])


def print_controls(console: Console, rows: Sequence[Measurement], *, shapes: bool = False) -> None:
    """What the baseline reads against itself: the noise floor of every comparison; with its shape if there are more."""
    for row in rows:
        if row.role is Role.CONTROL and row.versus:
            where = f" {row.case.shape}" if shapes else ""
            told = f"{_speedup(row.versus)}, {row.versus.verdict.upper()}"
            console.print(Text(f"A/A{where}: {row.case.variant.label} against itself {told}"))


def _is_shadow(row: Measurement, rows: Sequence[Measurement]) -> bool:
    """Whether a control failed only because its baseline did."""
    return row.role is Role.CONTROL and any(
        other.role is Role.BASELINE and other.status is row.status for other in rows
    )


def _table(info: RunInfo, rows: Sequence[Measurement], notes: bool, *, broken: bool = False) -> Table:
    """The rows of a shape; `broken` puts a label's params on a line of their own."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kernel", overflow="fold")
    table.add_column("time µs" if info.on_gpu else "CPU time µs", justify="right", no_wrap=True)
    if info.on_gpu:
        table.add_column("GB/s", justify="right", no_wrap=True)
        table.add_column("SOL", justify="right", no_wrap=True)
    table.add_column(_versus_heading(info), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if info.on_gpu:
        table.add_column("MHz", justify="right", no_wrap=True)
    if notes:
        table.add_column("notes")
    for row in rows:
        cells = [name_cell(row, broken=broken), _time(row)]
        cells += [_bandwidth(row), _sol(row)] if info.on_gpu else []
        cells += [_versus(row), _verdict(row)]
        cells += [_clock(row)] if info.on_gpu else []
        table.add_row(*cells, *([Text("; ".join(_notes(row)))] if notes else []))
    return table


def _versus_heading(info: RunInfo) -> str:
    return f"vs {info.baseline.removeprefix(f'{info.op}-')}"


def name_cell(row: Measurement, *, broken: bool = False) -> Text:
    """A row's label; `broken` puts its params on a line of their own."""
    label = row.case.label.replace(":", "\n  :", 1) if broken else row.case.label
    return Text(label, style="dim" if row.role is Role.FLOOR else "bold" if row.role is Role.BASELINE else "")


def _time(row: Measurement) -> Text:
    timing = row.timing
    assert timing
    return Text(f"{time_text(timing.time_us)} ±{percent(timing.relative_half_width)}")


def _bandwidth(row: Measurement) -> Text:
    known = row.timing and not math.isnan(row.timing.bandwidth_gbs)
    return Text(f"{row.timing.bandwidth_gbs:.0f}" if known and row.timing else "")


def _sol(row: Measurement) -> Text:
    known = row.timing and not math.isnan(row.timing.sol) and row.role is not Role.FLOOR
    return Text(f"{row.timing.sol:.1%}" if known and row.timing else "")


def _versus(row: Measurement) -> Text:
    if row.role is Role.BASELINE:
        return Text("1", style="dim")
    return Text(_speedup(row.versus) if row.versus else "")


def _speedup(versus: Versus) -> str:
    if not math.isfinite(versus.high):
        return f"{versus.speedup:.3f}x"
    half = (versus.high - versus.low) / 2 / versus.speedup
    return f"{versus.speedup:.{3 if versus.speedup < 10 else 2}f}x ±{percent(half)}"


def _verdict(row: Measurement) -> Text:
    if row.role is Role.BASELINE:
        return Text("baseline", style="dim")
    if row.role is Role.FLOOR:
        return Text("floor", style="dim")
    verdict = row.versus.verdict if row.versus else ""
    return Text(verdict.upper(), style=VERDICT_STYLES.get(verdict, ""))


def _clock(row: Measurement) -> Text:
    known = row.timing and not math.isnan(row.timing.sm_mhz)
    return Text(f"{row.timing.sm_mhz:.0f}" if known and row.timing else "")


def _notes(row: Measurement) -> list[str]:
    notes = [row.case.variant.in_full] if row.case.variant.is_picked else []
    notes += row.warnings
    if row.launches > 1:
        notes.append(f"{row.launches} launches")
    if row.spill_bytes > 0:
        notes.append(f"spills {row.spill_bytes} B a thread")
    if row.versus and row.versus.verdict == "unclear":
        more = row.versus.more_rounds
        notes.append(f"{more} more rounds would settle it" if more else "more rounds would not settle it")
    return notes


def _print_notes(console: Console, rows: Sequence[Measurement]) -> None:
    for row in rows:
        if _notes(row):
            console.print(Text(f"  {row.case.label}: {'; '.join(_notes(row))}", style="dim"))


def print_failures(console: Console, rows: Sequence[Measurement], what: str = "") -> None:
    """What was not measured and why, `what` in front; kernels that share a status and a reason share a line."""
    grouped: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.status, row.reason), []).append(row.case.label)
    for (status, reason), labels in grouped.items():
        first, *more = reason.strip().splitlines() or [""]
        names = ", ".join(labels)
        style = "red" if status.is_failure else "yellow"
        console.print(Text.assemble((what + status.value, style), f"  {names}: {first}"))
        for line in more:
            console.print(Text(f"    {line}", style="dim"))


def _legend(info: RunInfo) -> Text:
    settings = info.settings
    lines = [
        f"±: {settings['confidence']:.0%} interval over rounds. vs: baseline time / kernel time, paired by round;",
        f"FASTER or SLOWER beyond {settings['margin']:.2%}, with Holm's correction for the number of kernels.",
    ]
    if info.on_gpu:
        lines.append("SOL: time of the fastest copying floor / the kernel's. GB/s: least traffic of the op / time.")
    return Text("\n".join(lines))


def time_text(time_us: float) -> str:
    """Microseconds; nanoseconds matter below a hundred."""
    return f"{time_us:.3f}" if time_us < 100 else f"{time_us:.1f}"


def percent(share: float) -> str:
    """A share as people read it, with two decimals while they matter."""
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"
