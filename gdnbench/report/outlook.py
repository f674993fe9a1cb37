"""Prints `--dry-run`: what a command would build and measure, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.text import Text

from gdnbench.measure.plan import Outlook
from gdnbench.origin import RESULTS, out_option
from gdnbench.render.console import data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import duration
from gdnbench.wording import first_of, plural

_MOST_SHAPES = 24
_FIRST_SHAPES = 6


def print_outlook(outlook: Outlook, command: Sequence[str], *, json: bool, csv: bool, cards: int = 1) -> None:
    """Prints the outlook of a run or sweep on each of `cards` cards; the next command lacks `--dry-run`."""
    if json or csv:
        document = asdict(outlook) | ({"cards": cards} if cards > 1 else {})
        print_json(document) if json else print_csv([document])
        return
    console = data_console()
    table = plain_table(header=False)
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("how much", overflow="fold")
    for what, told in _rows(outlook, cards):
        table.add_row(what, Text(told))
    console.print(table)
    if outlook.refused:
        print_next(console, ["gdnbench", "doctor"])
        return
    kept = [word for word in command if word != "--dry-run"]
    print_next(console, ["gdnbench", *kept, *out_option(RESULTS)])


def _rows(outlook: Outlook, cards: int) -> list[tuple[str, str]]:
    kernels = ", ".join(outlook.kernels) or "none"
    device = outlook.device + (f", on each of {cards} cards at once" if cards > 1 else "")
    rows = [("device", device), ("kernels", kernels), ("workloads", _workloads(outlook.shapes))]
    if outlook.points:
        rows.append(("points", f"{outlook.points:,}"))
    rows.append(("cases", f"{outlook.cases:,}"))
    for why, labels in _by_reason(outlook.left_out).items():
        rows.append(("left out", f"{_few(labels)}: {why}"))
    building = f"{outlook.builds:,}, {outlook.cached:,} of them in the cache"
    if outlook.missing:
        building += f"; about {duration(outlook.building_s)}"
    rows.append(("builds", building))
    if outlook.refused:
        return [*rows, ("refused", outlook.refused)]
    workers = "" if outlook.processes == 1 else f" in {outlook.processes} processes, each with a burn-in"
    rounds = f"{plural(outlook.rounds, 'round')}{workers or ' and a burn-in'}, " if outlook.rounds else ""
    longest_us = outlook.longest_call_us
    slower = f" (more where a call takes over {longest_us:,.0f} µs)" if longest_us else ""
    measuring = f"{rounds}at most {duration(outlook.measuring_s)}{slower}, after all kernels are checked"
    rows.append(("measuring", measuring))
    return rows


def _by_reason(left_out: dict[str, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for label, why in left_out.items():
        reasons.setdefault(why, []).append(label)
    return reasons


def _workloads(shapes: Sequence[str]) -> str:
    if len(shapes) <= _MOST_SHAPES:
        return ", ".join(shapes)
    return f"{len(shapes)}: {first_of(shapes, _FIRST_SHAPES)}, which --json names"


def _few(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= 4 else f"{', '.join(labels[:3])} and {len(labels) - 3} more"
