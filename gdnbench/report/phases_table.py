"""A kernel's phases as people read them: a line each, what the launch was like, and what stamping cost."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from gdnbench.model import CodeState
from gdnbench.profilers.phases.reading import Overhead, Reading, Timeline
from gdnbench.profilers.phases.stamps import About
from gdnbench.report.breakdown_table import breakdown_table
from gdnbench.report.other_code import other_code
from gdnbench.report.run_table import percent, time_text

BENDING = 0.25
"""Stamping that adds more than this share of the kernel's time bends it too far to be read by the digit."""

_LEGEND = (
    "of all warps of all launches; spread: between the warps of a launch, 5th to 95th\n"
    "percentile; (between): after the last mark"
)


def print_phases(console: Console, about: About, reading: Reading, path: Path, code: CodeState) -> None:
    """Prints one kernel's phases, and where the stamps are."""
    launches, warps = reading.breakdown.launches, reading.breakdown.warps
    console.print(Text(f"{about.label}  {about.shape}  on {about.gpu}", style="bold"))
    console.print(Text(f"{launches} launches of {warps} warps, cold L2", style="dim"))
    console.print(breakdown_table(reading.breakdown, "phase"))
    console.print(Text(_LEGEND, style="dim"))
    for line in (*_timeline(reading.timeline), _overhead(about, reading.overhead)):
        console.print(Text(line))
    for warning in warnings(about, reading, code):
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(Text(f"stored in {path}", style="dim"), soft_wrap=True)


def warnings(about: About, reading: Reading, code: CodeState) -> list[str]:
    """What qualifies the numbers."""
    found = [other_code(about.label)] if code is CodeState.CHANGED else []
    launches = reading.breakdown.launches
    if launches < about.asked:
        found.append(f"{about.asked} launches were asked for, and the stamps of {launches} fit in memory")
    if reading.unpassed:
        found.append(f"no warp passed {', '.join(reading.unpassed)}")
    if reading.silent:
        found.append(f"warps that wrote no stamps in some launch, and are left out: {reading.silent}")
    if about.stamped_spill_bytes:
        found.append(f"the stamped kernel has {about.stamped_spill_bytes} B a thread in local memory")
    if reading.overhead.share > BENDING:
        found.append("stamping bends this kernel: its shares are a rough guide")
    return found


def _timeline(line: Timeline) -> tuple[str, ...]:
    return (
        f"launch: {time_text(line.span_us)} µs from the first warp's begin to the last one's end,",
        f"  begins {time_text(line.skew_us)} µs apart (medians; the global timer steps by {line.step_ns} ns)",
        f"SM clock: {line.sm_mhz:.0f} MHz, from each warp's cycles and nanoseconds",
    )


def _overhead(about: About, cost: Overhead) -> str:
    change = f"costs {percent(cost.share)}" if cost.share >= 0 else f"saves {percent(-cost.share)}"
    times = f"stamped {time_text(cost.stamped_us)} µs, plain {time_text(cost.plain_us)} µs"
    return f"{times}: stamping {change}; registers {about.registers} to {about.stamped_registers}"
