"""What moved between two kernels, as ncu sees them."""

from __future__ import annotations

import math
from itertools import groupby

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.profilers.ncu.difference import RELATIVE_FLOOR, Difference, Move
from gdnbench.profilers.ncu.functions import Function
from gdnbench.report.ncu_cells import heading, shape_text, titled, value_text
from gdnbench.report.ncu_table import NOT_A_TIME, TITLE_WIDTH
from gdnbench.report.run_table import percent

_STYLES = {"better": "green", "worse": "red", "": ""}


def moved(difference: Difference) -> Group:
    """One pair: what moved by more than its launches do, by mechanism."""
    title = Text(f"{_told(difference.before)}  ->  {_told(difference.after)}", style="bold")
    if not difference.moves:
        return Group(title, Text(f"  nothing moved, of {difference.compared} quantities"), *_notes(difference))
    return Group(title, _table(difference), *_notes(difference))


def _told(function: Function) -> str:
    return f"{function.label or function.name} {shape_text(function.shape)} on {function.gpu or 'an unknown GPU'}"


def _table(difference: Difference) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", min_width=TITLE_WIDTH - 2, no_wrap=True)
    sides = (difference.before, difference.after)
    for function in sides:
        table.add_column(Text("\n".join(heading(function, sides))), justify="right", vertical="bottom")
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for group, moves in groupby(difference.moves, lambda move: move.group):
        table.add_row(Text("stalls, cycles/instruction" if group == "stalls" else group, style="bold"))
        for move in moves:
            before, after = (value_text(value, move.unit) for value in move.medians)
            verdict = Text(move.verdict, style=_STYLES[move.verdict])
            table.add_row(Text(f"  {_title(move)}"), before, after, _change(move), verdict)
    return table


def _title(move: Move) -> str:
    return move.title if move.unit == "cycles" else titled(move.title, move.unit)


def _change(move: Move) -> str:
    """By how much: in points for a per cent, else as a share, or a factor where it is large."""
    before, after = move.medians
    if move.unit == "%":
        return f"{after - before:+.1f} pt"
    if math.isnan(move.ratio):
        return "from none"
    if move.ratio >= 2:
        return f"{move.ratio:.3g}x"
    return f"{'+' if move.ratio > 1 else '-'}{percent(abs(move.ratio - 1))}"


def _notes(difference: Difference) -> list[Text]:
    shown, floor = f"shown: {len(difference.moves)} of {difference.compared} quantities", f"{RELATIVE_FLOOR:.0%}"
    if difference.has_spread:
        before, after = len(difference.before.profiles), len(difference.after.profiles)
        rule = f"{shown}, which moved by more than {before} and {after} launches spread, and by {floor} or more."
    else:
        rule = f"{shown}, which moved by {floor} or more; their spread is not known: --repeat 3 measures it."
    return [Text(line, style="dim") for line in (rule, "better, worse: all else equal.", NOT_A_TIME)]
