"""Kernels side by side, as ncu sees them: a column for each GPU function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gdnbench.profilers.ncu.functions import Function
from gdnbench.profilers.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.report.ncu_cells import COLUMN_WIDTH, cell, heading, shape_text, stall_text, titled

TITLE_WIDTH = 28
_GAP = 2
_LEAST_SHARE = 0.01  # of a warp's time, below which a stall is left out
_TELLING_SHARE = 0.1  # of a warp's time, from which on a stall is explained
NOT_A_TIME = (
    "ncu's duration is that of a replay by itself, after the caches were flushed: "
    "compare it with other durations here, not with times of gdnbench run."
)


def tables(console: Console, functions: Sequence[Function]) -> Group:
    """Every quantity of every function, in as many tables as the width asks for."""
    most = max(1, (console.width - TITLE_WIDTH) // (COLUMN_WIDTH + _GAP))
    blocks = [functions[start : start + most] for start in range(0, len(functions), most)]
    parts: list[RenderableType] = [Text(_headline(functions), style="bold")]
    for number, block in enumerate(blocks):
        parts += [*([Text("")] if number else []), _table(block, functions)]
    return Group(*parts, *_legend(functions))


def _headline(functions: Sequence[Function]) -> str:
    """What all columns have in common."""
    first = functions[0]
    ops = {function.profiles[0].op for function in functions}
    parts = [next(iter(ops))] if len(ops) == 1 else []
    parts += [shape_text(first.shape)] if len({one.shape for one in functions}) == 1 else []
    parts += [first.gpu] if len({one.gpu for one in functions}) == 1 else []
    return "  ".join(filter(None, parts)) or "as ncu sees it"


def _table(block: Sequence[Function], everything: Sequence[Function]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    table.add_column("", min_width=TITLE_WIDTH - _GAP, no_wrap=True)
    for function in block:
        head = Text("\n".join(heading(function, everything)))
        table.add_column(head, justify="right", overflow="fold", vertical="bottom", max_width=COLUMN_WIDTH)
    for group, quantities in groupby(QUANTITIES, lambda quantity: quantity.group):
        table.add_row(Text(group, style="bold"))
        for quantity in quantities:
            cells = [cell(function, quantity) for function in block]
            table.add_row(Text(f"  {titled(quantity.title, quantity.unit)}"), *cells)
    _add_stalls(table, block, everything)
    return table


def _add_stalls(table: Table, block: Sequence[Function], everything: Sequence[Function]) -> None:
    """Rows of the stalls, most of the first function's first, so that every block has the same rows."""
    reasons = list(stall_reasons(everything))
    if not reasons:
        return
    table.add_row(Text("a warp's cycles/instruction", style="bold"))
    found = [function.stalls() for function in block]
    for reason in reasons:
        cells = [stall_text(stalls.get(reason, 0.0), sum(stalls.values())) for stalls in found]
        table.add_row(Text(f"  {reason}"), *cells)


def stall_reasons(functions: Sequence[Function]) -> Iterator[str]:
    """The stalls worth a row, most of the first function's first."""
    found = [function.stalls() for function in functions]
    for reason in dict.fromkeys(reason for stalls in found for reason in stalls):
        if any(stalls.get(reason, 0.0) >= _LEAST_SHARE * sum(stalls.values()) for stalls in found if stalls):
            yield reason


def _legend(functions: Sequence[Function]) -> Iterator[Text]:
    first = functions[0].stalls()
    for reason, cycles in first.items():
        if cycles >= _TELLING_SHARE * sum(first.values()) and reason in STALL_MEANINGS:
            yield Text(f"{reason}: {STALL_MEANINGS[reason]}", style="dim")
    if any(len(function.profiles) > 1 for function in functions):
        yield Text("of several launches: the median of each quantity", style="dim")
    yield Text(f"-: not in the report. {NOT_A_TIME}", style="dim")
