"""Prints `gdnbench proton` of CUDA kernels: a line per phase of a CUDA kernel, the launch, and the cost of stamping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.origin import place_asked, profiles_option
from gdnbench.profile.breakdown import (
    BETWEEN,
    WHOLE,
    Breakdown,
    Overhead,
    PhaseProfile,
    PhaseRow,
    Timeline,
    WarpRole,
    analyse,
)
from gdnbench.profile.stamps import StampedKernel, Stamps
from gdnbench.render.console import FittedTable, data_console, print_csv, print_json, print_next
from gdnbench.render.units import CodeOf, other_code, percent, time_text
from gdnbench.wording import plural, spans_text

_COLUMNS = {"avg": "average", "min": "minimum", "p95": "p95", "max": "maximum", "spread": "spread"}


def breakdown_table(breakdown: Breakdown, heading: str) -> FittedTable:
    """Makes a line per phase, for the time between phases, and for the total; `heading` names the phases, `scope`."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("share", justify="right", no_wrap=True)
    for title in _COLUMNS:
        unit = f" {breakdown.unit}" if title == "avg" else ""
        table.add_column(f"{title}{unit}", justify="right", no_wrap=True)
    for row in breakdown.rows():
        style = {BETWEEN: "dim", WHOLE: "bold"}.get(row.name, "")
        inside = "  " if row.name in breakdown.nested else ""
        cells = [_duration(getattr(row, field), breakdown.unit) for field in _COLUMNS.values()]
        table.add_row(*(Text(cell, style=style) for cell in (f"{inside}{row.name}", percent(row.share), *cells)))
    return FittedTable(table, ("min", "spread", "max", "p95"))


def breakdown_rows(breakdown: Breakdown) -> list[dict[str, Any]]:
    """Returns the same numbers as rows for JSON and CSV, with the unit in the names."""
    unit = "us" if breakdown.unit == "µs" else breakdown.unit
    return [_row(row, unit) for row in breakdown.rows()]


def _row(row: PhaseRow, unit: str) -> dict[str, Any]:
    durations = {f"{title}_{unit}": getattr(row, field) for title, field in _COLUMNS.items()}
    return {"name": row.name, "share": row.share, **durations}


def _duration(value: float, unit: str) -> str:
    return f"{value:.3f}" if unit == "µs" else f"{value:.0f}"


_LEGEND = (
    "of all warps of all launches; spread: between the warps of a launch, 5th to 95th\n"
    "percentile; (between): after the last mark"
)
_LEGEND_OF_ROLES = (
    "of a role's warps of all launches; spread: between the warps of a launch,\n"
    "5th to 95th percentile; (between): after the last mark"
)
_SUM_LEGEND = (
    "span: from a launch's first warp's begin to its last one's end, while it is\n"
    "stamped; what lies between launches is in none"
)


def print_profiles(found: Mapping[Path, Stamps], code_of: CodeOf, profiles: Path, *, json: bool, csv: bool) -> None:
    """Prints each file's stamps, and whether its code is current; raises ProfilerError if the stamps tell nothing."""
    analysed = {path: (stamps.about, analyse(stamps)) for path, stamps in found.items()}
    if json:
        print_json([_document(path, kernel, profile, code_of) for path, (kernel, profile) in analysed.items()])
    elif csv:
        print_csv([row for kernel, profile in analysed.values() for row in _rows(kernel, profile, code_of)])
    else:
        _print_tables(analysed, code_of, profiles)


def _print_tables(analysed: Mapping[Path, tuple[StampedKernel, PhaseProfile]], code_of: CodeOf, profiles: Path) -> None:
    console = data_console()
    for path, (kernel, profile) in analysed.items():
        _print_phases(console, kernel, profile, path, code_of(kernel.label, kernel.source))
        console.print()
    for launches in _calls(analysed.values()):
        _print_sum(console, launches)
        console.print()
    kernel, _ = next(iter(analysed.values()))
    command = ["gdnbench", "ncu", kernel.label, *kernel.workload.options]
    print_next(console, [*command, *profiles_option(profiles)])


StampedLaunch = tuple[StampedKernel, PhaseProfile]


def _calls(analysed: Iterable[StampedLaunch]) -> Iterator[list[StampedLaunch]]:
    """Yields the stamped launches of each kernel that has several of them here."""
    calls: dict[tuple[str, Workload, str, str], dict[str, StampedLaunch]] = {}
    for kernel, profile in analysed:
        if kernel.entry:
            call = calls.setdefault((kernel.label, kernel.workload, kernel.gpu, kernel.source), {})
            call[kernel.entry] = (kernel, profile)
    return (list(launches.values()) for launches in calls.values() if len(launches) > 1)


def _print_sum(console: Console, launches: Sequence[StampedLaunch]) -> None:
    """Prints each launch's time and their sum, and the phases that none of them passed."""
    kernel, total_us = launches[0][0], sum(profile.timeline.span_us for _, profile in launches)
    console.print(Text(f"{kernel.label}  {kernel.workload}  on {kernel.gpu}", style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("launch", no_wrap=True)
    table.add_column("span µs", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for one, profile in launches:
        span_us = profile.timeline.span_us
        table.add_row(Text(one.entry), time_text(span_us), percent(span_us / total_us))
    table.add_row(*(Text(cell, style="bold") for cell in ("sum", time_text(total_us), percent(1.0))))
    console.print(table)
    console.print(Text(_SUM_LEGEND, style="dim"))
    passed_by_none = [name for name in kernel.phases if all(name in profile.unpassed for _, profile in launches)]
    if passed_by_none:
        console.print(Text(f"warning: no warp of these launches passed {', '.join(passed_by_none)}", style="yellow"))


def _print_phases(console: Console, kernel: StampedKernel, profile: PhaseProfile, path: Path, code: CodeState) -> None:
    launches, warps = profile.breakdown.launches, profile.breakdown.warps
    console.print(Text(f"{kernel.title}  {kernel.workload}  on {kernel.gpu}", style="bold"))
    cold = "cold L2 before each call" if kernel.entry else "cold L2"
    console.print(Text(f"{launches} launches of {warps} warps, {cold}", style="dim"))
    several = len(profile.roles) > 1
    for role in profile.roles:
        if several:
            console.print(Text(_warps_text(role, kernel.block_warps), style="bold"))
        console.print(breakdown_table(role.breakdown, "phase"))
    console.print(Text(_LEGEND_OF_ROLES if several else _LEGEND, style="dim"))
    for line in (*_timeline_lines(profile.timeline), _overhead_text(kernel, profile.overhead)):
        console.print(Text(line))
    if profile.unmarked:
        console.print(Text(f"without marks: {_places_text(profile.unmarked, kernel.block_warps)}"))
    for warning in _warnings(kernel, profile, code):
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(Text(f"stored in {place_asked(path)}", style="dim"), soft_wrap=True)


def _warps_text(role: WarpRole, block_warps: int) -> str:
    """Returns `warps 0-7 of each block's 12, 1056 in all`; only the number if their places are unknown."""
    count = role.breakdown.warps
    if not role.places:
        return plural(count, "warp")
    return f"{_places_text(role.places, block_warps)}, {count} in all"


def _places_text(places: Sequence[int], block_warps: int) -> str:
    noun = "warp" if len(places) == 1 else "warps"
    return f"{noun} {spans_text(places)} of each block's {block_warps}"


BENDING = 0.25
"""Overhead of stamping, as a share of the kernel's time, above which shares are only approximate."""


def _warnings(kernel: StampedKernel, profile: PhaseProfile, code: CodeState) -> list[str]:
    found = [other_code(kernel.label)] if code is CodeState.CHANGED else []
    launches = profile.breakdown.launches
    if launches < kernel.asked:
        found.append(f"{kernel.asked} launches were asked for, and the stamps of {launches} fit in memory")
    if profile.unpassed and not kernel.entry:  # phases of another launch are declared with this one's
        found.append(f"no warp passed {', '.join(profile.unpassed)}")
    if profile.crossed:
        told = f"the clock at the end of {', '.join(profile.crossed)} was read before that at its beginning"
        found.append(f"{told}: only the sum with the phases beside it is right")
    if profile.silent:
        found.append(f"warps that wrote no stamps in some launch, and are left out: {profile.silent}")
    if kernel.stamped_spill_bytes:
        found.append(f"the stamped kernel has {kernel.stamped_spill_bytes} B a thread in local memory")
    if profile.overhead.share > BENDING:
        found.append("stamping bends this kernel: its shares are a rough guide")
    return found


def _timeline_lines(line: Timeline) -> tuple[str, ...]:
    return (
        f"launch: {time_text(line.span_us)} µs from the first warp's begin to the last one's end,",
        f"  begins {time_text(line.skew_us)} µs apart (medians; the global timer steps by {line.step_ns} ns)",
        f"SM clock: {line.sm_mhz:.0f} MHz, from each warp's cycles and nanoseconds",
    )


def _overhead_text(kernel: StampedKernel, cost: Overhead) -> str:
    change = f"costs {percent(cost.share)}" if cost.share >= 0 else f"saves {percent(-cost.share)}"
    times = f"stamped {time_text(cost.stamped_us)} µs, plain {time_text(cost.plain_us)} µs"
    whole = ", of whole calls" if kernel.entry else ""
    return f"{times}{whole}: stamping {change}; registers {kernel.registers} to {kernel.stamped_registers}"


def _document(path: Path, kernel: StampedKernel, profile: PhaseProfile, code_of: CodeOf) -> dict[str, Any]:
    code = code_of(kernel.label, kernel.source)
    return {
        **kernel.to_dict(),
        "code": code,
        "shape": kernel.workload.cells,
        **_common(profile),
        "phases": breakdown_rows(profile.breakdown),
        "roles": [
            {"places": role.places, "warps": role.breakdown.warps, "phases": breakdown_rows(role.breakdown)}
            for role in profile.roles
        ],
        "unpassed": profile.unpassed,
        "crossed": profile.crossed,
        "unmarked_places": profile.unmarked,
        "silent_warps": profile.silent,
        "warnings": _warnings(kernel, profile, code),
        "file": path,
    }


def _rows(kernel: StampedKernel, profile: PhaseProfile, code_of: CodeOf) -> list[dict[str, Any]]:
    """Returns a row per phase of each role, for CSV; the role is the numbers of its warps in a block."""
    code = code_of(kernel.label, kernel.source).value
    subject = {"op": kernel.op, "label": kernel.label, "entry": kernel.entry, **kernel.workload.cells}
    subject |= {"gpu": kernel.gpu, "source": kernel.source, "code": code}
    common = _common(profile)
    return [
        {**subject, "role": spans_text(role.places), **row, **common, "warps": role.breakdown.warps}
        for role in profile.roles
        for row in breakdown_rows(role.breakdown)
    ]


def _common(profile: PhaseProfile) -> dict[str, Any]:
    return {
        "launches": profile.breakdown.launches,
        "warps": profile.breakdown.warps,
        **asdict(profile.timeline),
        **asdict(profile.overhead),
        "overhead": profile.overhead.share,
    }
