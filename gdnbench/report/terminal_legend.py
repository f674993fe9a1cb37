"""The legend of a chart in the terminal: every line with its letter, its name and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gdnbench.report.console import fits
from gdnbench.report.terminal_lines import MANY, Line


def print_legend(console: Console, lines: Sequence[Line], headings: Mapping[float, str]) -> None:
    """Prints the lines with their values at as many places as fit, the first and the last among them.

    Args:
        console: where to.
        lines: those that have a name.
        headings: what each place on the x axis is called, from left to right.
    """
    if not lines:
        return
    places = [place for place in headings if any(place in line.values for line in lines)]
    for count in range(len(places), -1, -1):
        table = _table(lines, {place: headings[place] for place in spaced(places, count)})
        if fits(console, table) or count == 1:
            break
    console.print(table)
    if len(lines) > 1:
        many = f" (+: {MANY} or more)" if len(lines) >= MANY else ""
        console.print(Text(f"a number in the chart: that many lines have a point there{many}", style="dim"))
        console.print(Text("letters at the right: the lines that end in that row", style="dim"))


def spaced(places: Sequence[float], count: int) -> list[float]:
    """So many of the places, as evenly as they go; the last alone, the first and the last, and then between them."""
    if count < 2:
        return list(places[len(places) - count :])
    return [places[round(step * (len(places) - 1) / (count - 1))] for step in range(count)]


def _table(lines: Sequence[Line], headings: Mapping[float, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for heading in headings.values():
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for line in lines:
        mark = Text(line.mark, style=f"color({line.colour})")
        table.add_row(mark, Text(line.name), *(Text(line.values.get(place, "")) for place in headings))
    return table
