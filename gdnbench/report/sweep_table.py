"""A sweep as people read it: the answer for each kernel and shape, the best points, and what could not work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model import Measurement, OneForAll, Place, Plateau, Point, Shape, Status, Sweep
from gdnbench.report.console import fits
from gdnbench.report.fitted import Fitted
from gdnbench.report.run_table import percent, print_controls
from gdnbench.report.sweep_chart import print_charts
from gdnbench.report.sweep_view import tell
from gdnbench.report.terminal import OptionalCharts
from gdnbench.store import RunInfo

MOST_ROWS = 12  # of points beyond the plateau, a reader wants the shape, which the chart shows

_STYLES = {Place.BEST: "bold green", Place.TIED: "green", Place.UNCLEAR: "yellow", Place.SLOWER: ""}
_WORDS = {Place.BEST: "BEST", Place.TIED: "TIES", Place.UNCLEAR: "UNCLEAR", Place.SLOWER: "SLOWER"}

Rows = Mapping[tuple[str, Shape], Measurement]


def print_sweep_tables(
    console: Console, info: RunInfo, sweep: Sweep, measurements: Sequence[Measurement], folder: Path
) -> None:
    """Prints a sweep: what it is, its charts, a table and an answer for each kernel and shape."""
    rows = {(row.case.label, row.case.shape): row for row in measurements}
    console.print(_headline(info, sweep, measurements))
    for warning in info.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    print_charts(console, sweep, OptionalCharts())
    for plateau in sweep.plateaus:
        _print_plateau(console, sweep, plateau, rows)
    for one in sweep.one_for_all:
        console.print()
        console.print(_one_for_all(sweep, one))
    _print_finals(console, sweep)
    _print_infeasible(console, [row for row in measurements if row.case.is_point_of(sweep.axes)])
    print_controls(console, measurements, shapes=True)
    console.print()
    console.print(_legend(info), style="dim")
    console.print(Text(f"stored in {folder}", style="dim"), soft_wrap=True)


def _headline(info: RunInfo, sweep: Sweep, measurements: Sequence[Measurement]) -> Text:
    gpu = info.machine.get("gpu") or {}
    count = sum(row.case.is_point_of(sweep.axes) for row in measurements)
    text = Text(f"sweep on {gpu.get('name') or 'the CPU (no GPU here, or none wanted)'}", style="bold")
    tried = "; ".join(
        f"{kernel} " + " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items())
        for kernel, axes in sweep.axes.items()
    )
    text.append(f": {count} points: {tried}", style="not bold")
    if not info.complete:
        text.append("  (partial)", style="bold yellow")
    return text


def _print_plateau(console: Console, sweep: Sweep, plateau: Plateau, rows: Rows) -> None:
    points = sweep.of(plateau)
    names = list(sweep.axes[plateau.kernel])
    shown = points[: max(MOST_ROWS, len(plateau.tied))]
    console.print()
    console.print(Text(f"{plateau.kernel}  {plateau.shape}", style="bold"))
    table = _table(shown, names, rows)
    if not fits(console, table):
        table = _table(shown, names, rows, builds=False)
    console.print(Fitted(table, ("rounds",)))
    if len(points) > len(shown):
        rest = points[len(shown) :]
        console.print(Text(f"… and {len(rest)} more, up to {points[-1].slower_by:.0%} slower", style="dim"))
    console.print(_answer(sweep, plateau, names, rows))


def _table(points: Sequence[Point], names: Sequence[str], rows: Rows, *, builds: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for heading in ("time µs", "slower by"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("rounds", *(("regs", "spill", "smem") if builds else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        row = rows[point.label, point.shape]
        counts = (row.registers, row.spill_bytes, row.shared_bytes)
        table.add_row(
            *(str(point.params[name]) for name in names),
            f"{row.timing.time_us:.3f}" if row.timing else "",
            _slower(point),
            Text(_WORDS[point.place], style=_STYLES[point.place]),
            str(point.rounds),
            *("" if count < 0 else str(count) for count in counts if builds),
        )
    return table


def _slower(point: Point) -> str:
    if point.place is Place.BEST:
        return ""
    return percent(point.slower_by) + _give_or_take(point.slower_lo, point.slower_hi)


def _give_or_take(low: float, high: float) -> str:
    """Half an interval; nothing where it has no end."""
    return f" ±{percent((high - low) / 2)}" if math.isfinite(high) else ""


def _answer(sweep: Sweep, plateau: Plateau, names: Sequence[str], rows: Rows) -> Text:
    simplest = tell(sweep.point(plateau, plateau.simplest).params, names)
    if len(plateau.tied) > 1:
        text = Text(f"{len(plateau.tied)} points tie within {percent(plateau.within)}; the simplest is {simplest}")
    else:
        text = Text(f"the best is {simplest}")
    if plateau.unclear:
        text.append(f"; {len(plateau.unclear)} more may tie: a larger --budget would tell", "yellow")
    versus = rows[plateau.simplest, plateau.shape].versus
    if versus:
        change = versus.speedup - 1.0
        apart = percent(abs(change)) + _give_or_take(versus.low, versus.high)
        than = f"{apart} {'faster' if change >= 0 else 'slower'} than {versus.baseline}"
        text.append(f"\n{than} ({versus.verdict.upper()})")
    text.stylize("bold", 0, len(text.plain.partition("\n")[0]))
    return text


def _one_for_all(sweep: Sweep, one: OneForAll) -> Text:
    params = next(point.params for point in sweep.points if (point.kernel, point.label) == (one.kernel, one.label))
    shape, worst = one.worst
    cost = f"costs at most {percent(worst)} ({shape}), {percent(one.mean)} on average" if worst else "is the best"
    told = tell(params, [*sweep.axes[one.kernel]])
    return Text(f"{one.kernel}, one point for every shape: {told} {cost}", style="bold")


def _print_finals(console: Console, sweep: Sweep) -> None:
    """The kernels beside each other, a line for each at each shape."""
    for shape in dict.fromkeys(point.shape for point in sweep.finals):
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for point in sweep.final(shape):
            label = f"{point.kernel} {tell(point.params, [*sweep.axes[point.kernel]])}"
            table.add_row(label, _slower(point), Text(_WORDS[point.place], style=_STYLES[point.place]))
        console.print()
        console.print(Text(f"the kernels at {shape}", style="bold"))
        console.print(table)


def _print_infeasible(console: Console, points: Sequence[Measurement]) -> None:
    grouped: dict[tuple[str, Status, str], list[str]] = {}
    counts = Counter(row.case.variant.kernel for row in points)
    for row in points:
        if row.status is not Status.OK:
            reason = (row.reason.strip().splitlines() or [""])[0]
            key = (row.case.variant.kernel, row.status, reason)
            grouped.setdefault(key, []).append(f"{row.case.variant.label.partition(':')[2]} at {row.case.shape}")
    if grouped:
        console.print()
    for (kernel, status, reason), labels in grouped.items():
        some = ", ".join(labels[:3]) + (" …" if len(labels) > 3 else "")
        which = "every point" if len(labels) == counts[kernel] else f"{len(labels)} points ({some})"
        style = "yellow" if status.is_failure else "dim"
        console.print(Text.assemble((status.value, style), f"  {kernel}, {which}: {reason}"))


def _legend(info: RunInfo) -> Text:
    settings = info.settings
    confidence, margin = f"{settings['confidence']:.0%}", f"{settings['margin']:.2%}"
    return Text(
        f"slower by: time over the best point's, paired by round; ±: {confidence} interval for the whole race.\n"
        f"TIES: within {margin} of the best. A point that is SLOWER leaves the race, so it has fewer rounds."
    )
