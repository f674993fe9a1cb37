"""Prints `gdnbench ncu`: a column per GPU function, or the changes between two; as tables, JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gdnbench.catalog.catalog import axes_of
from gdnbench.catalog.resolve import DEFAULT_OP
from gdnbench.errors import UnknownNameError
from gdnbench.model.case import CodeState
from gdnbench.profile.ncu.functions import (
    RELATIVE_FLOOR,
    CallSum,
    CounterChange,
    Function,
    FunctionDifference,
    with_sums,
)
from gdnbench.profile.ncu.profile import estimated_speedups
from gdnbench.profile.ncu.quantities import ADDITIVE, QUANTITIES, STALL_MEANINGS, NcuQuantity
from gdnbench.render.console import data_console, print_csv, print_json, print_next
from gdnbench.render.units import CodeOf, other_code
from gdnbench.report.counters import (
    COLUMN_WIDTH,
    NOT_A_TIME,
    SUM,
    change_text,
    change_title,
    heading,
    quantity_text,
    rule_text,
    stall_reasons,
    stall_text,
    subject,
    titled,
    value_text,
    workload_text,
)

_TITLE_WIDTH = 28
_GAP = 2
_TELLING_SHARE = 0.1  # of a warp's time, from which on a stall is explained
_MOST_RULES = 3
_STYLES = {"better": "green", "worse": "red", "": ""}


def print_functions(functions: Sequence[Function], code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints functions side by side, and which of them are not of their kernels' current code."""
    if json:
        print_json([function_document(column, code_of) for column in with_sums(functions)])
    elif csv:
        print_csv([_row(column, code_of) for column in with_sums(functions)])
    else:
        console = data_console()
        console.print(_tables(console, functions))
        _print_end(console, functions, code_of, _after_table(functions))


def print_differences(differences: Sequence[FunctionDifference], code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints the changes, pair by pair."""
    if json:
        print_json([difference_document(difference, code_of) for difference in differences])
    elif csv:
        print_csv([row for difference in differences for row in _difference_rows(difference, code_of)])
    else:
        console = data_console()
        for difference in differences:
            console.print(_difference(difference, named=len(differences) > 1))
        functions = [one for difference in differences for one in (difference.before, difference.after)]
        _print_end(console, functions, code_of, ["gdnbench", "ncu", "--import", *_paths(functions)])


def _print_end(console: Console, functions: Sequence[Function], code_of: CodeOf, command: Sequence[str]) -> None:
    for path in _paths(functions):
        console.print(Text(f"report: {path}", style="dim"), soft_wrap=True)
        here = [one for one in functions if str(one.path) == path]
        changed = [one.label for one in here if code_of(one.label, one.source) is CodeState.CHANGED]
        for label in dict.fromkeys(changed):
            console.print(Padding(Text(other_code(label), style="yellow"), (0, 0, 0, 8), expand=False))
    if command:
        print_next(console, command)


def _after_table(functions: Sequence[Function]) -> list[str]:
    """Returns the next command: `explain` for one kernel, `--diff` for several; empty if neither applies."""
    first, paths = functions[0], _paths(functions)
    if len(paths) > 1:
        both = [str(function.path) for function in functions if str(function.path) in paths[:2]]
        return ["gdnbench", "ncu", "--import", paths[0], "--diff", paths[1]] if len(both) == 2 else []
    if first.label and first.workload:
        return ["gdnbench", "explain", first.label, *first.workload.options, "--from", paths[0]]
    return ["ncu-ui", paths[0]] if paths[0].endswith(".ncu-rep") else []


def _paths(functions: Sequence[Function]) -> list[str]:
    paths: dict[Path, None] = dict.fromkeys(function.path for function in functions)
    return [str(path) for path in paths]


def _tables(console: Console, functions: Sequence[Function]) -> Group:
    most = max(1, (console.width - _TITLE_WIDTH) // (COLUMN_WIDTH + _GAP))
    columns = with_sums(functions)
    blocks = [columns[start : start + most] for start in range(0, len(columns), most)]
    parts: list[RenderableType] = [Text(_headline(functions), style="bold")]
    for number, block in enumerate(blocks):
        parts += [*([Text("")] if number else []), _function_table(block, functions)]
    return Group(*parts, *_rules(functions, console.width), *_legend(functions))


def _headline(functions: Sequence[Function]) -> str:
    first = functions[0]
    ops = {function.profiles[0].op for function in functions}
    parts = [next(iter(ops))] if len(ops) == 1 else []
    parts += [workload_text(first.workload)] if len({one.workload for one in functions}) == 1 else []
    parts += [first.gpu] if len({one.gpu for one in functions}) == 1 else []
    return "  ".join(filter(None, parts)) or "as ncu sees it"


def _function_table(block: Sequence[Function | CallSum], everything: Sequence[Function]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    table.add_column("", min_width=_TITLE_WIDTH - _GAP, no_wrap=True)
    for function in block:
        head = Text("\n".join(heading(function, everything)))
        table.add_column(head, justify="right", overflow="fold", vertical="bottom", max_width=COLUMN_WIDTH)
    for group, quantities in groupby(QUANTITIES, lambda quantity: quantity.group):
        table.add_row(Text(group, style="bold"))
        for quantity in quantities:
            cells = [_cell(column, quantity) for column in block]
            table.add_row(Text(f"  {titled(quantity.title, quantity.unit)}"), *cells)
    _add_stalls(table, block, everything)
    return table


def _cell(column: Function | CallSum, quantity: NcuQuantity) -> str:
    return "" if isinstance(column, CallSum) and quantity.key not in ADDITIVE else quantity_text(column, quantity)


def _add_stalls(table: Table, block: Sequence[Function | CallSum], everything: Sequence[Function]) -> None:
    """Adds rows of the stalls of all functions, most of the first's first, so that every block has the same rows."""
    reasons = list(stall_reasons(everything))
    if not reasons:
        return
    table.add_row(Text("a warp's cycles/instruction", style="bold"))
    found = [column.stalls() if isinstance(column, Function) else {} for column in block]
    for reason in reasons:
        cells = [stall_text(stalls.get(reason, 0.0), sum(stalls.values())) for stalls in found]
        table.add_row(Text(f"  {reason}"), *cells)


def _rules(functions: Sequence[Function], width: int) -> Iterator[Text]:
    """Yields the estimates of NVIDIA's rules per function, largest first; nothing if the reports hold none."""
    for function in functions:
        if results := estimated_speedups(function.profiles)[:_MOST_RULES]:
            name = " ".join(dict.fromkeys(filter(None, (function.label, function.name))))
            yield Text(f"{name}: speedup at most, by NVIDIA's rules", style="bold")
            for result in results:
                for line in wrap(f"  {rule_text(result)}", min(width, 80), subsequent_indent=" " * 8):
                    yield Text(line)


def _legend(functions: Sequence[Function]) -> Iterator[Text]:
    first = functions[0].stalls()
    for reason, cycles in first.items():
        if cycles >= _TELLING_SHARE * sum(first.values()) and reason in STALL_MEANINGS:
            yield Text(f"{reason}: {STALL_MEANINGS[reason]}", style="dim")
    if any(isinstance(column, CallSum) for column in with_sums(functions)):
        yield Text(f"{SUM}: of the launches of one call, each profiled by itself", style="dim")
    if any(len(function.profiles) > 1 for function in functions):
        yield Text("of several launches: the median of each quantity", style="dim")
    yield Text(f"-: not in the report. {NOT_A_TIME}", style="dim")


def _difference(difference: FunctionDifference, *, named: bool) -> Group:
    """Describes one pair: what changed by more than its launches spread, by mechanism; `named` adds the function."""
    which = f"{difference.after.name}: " if named else ""
    title = Text(f"{which}{subject(difference.before)}  ->  {subject(difference.after)}", style="bold")
    if not difference.changes:
        return Group(title, Text(f"  nothing moved, of {difference.compared} quantities"), *_notes(difference))
    return Group(title, _difference_table(difference), *_notes(difference))


def _difference_table(difference: FunctionDifference) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", min_width=_TITLE_WIDTH - 2, no_wrap=True)
    sides = (difference.before, difference.after)
    for function in sides:
        table.add_column(Text("\n".join(heading(function, sides))), justify="right", vertical="bottom")
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for group, changes in groupby(difference.changes, lambda change: change.group):
        table.add_row(Text("stalls, cycles/instruction" if group == "stalls" else group, style="bold"))
        for change in changes:
            before, after = (value_text(value, change.unit) for value in change.medians)
            verdict = Text(change.verdict, style=_STYLES[change.verdict])
            table.add_row(Text(f"  {change_title(change)}"), before, after, change_text(change), verdict)
    return table


def _notes(difference: FunctionDifference) -> list[Text]:
    shown, floor = f"shown: {len(difference.changes)} of {difference.compared} quantities", f"{RELATIVE_FLOOR:.0%}"
    if difference.has_spread:
        before, after = len(difference.before.profiles), len(difference.after.profiles)
        rule = f"{shown}, which moved by more than {before} and {after} launches spread, and by {floor} or more."
    else:
        rule = f"{shown}, which moved by {floor} or more; their spread is not known: --repeat 3 measures it."
    return [Text(line, style="dim") for line in (rule, "better, worse: all else equal.", NOT_A_TIME)]


def _no_axes(op: str) -> dict[str, None]:
    """Returns the empty axes of a launch of an unknown workload: its op's, or the default op's."""
    try:
        return dict.fromkeys(axes_of(op or DEFAULT_OP).names)
    except UnknownNameError:
        return {}


def _identity(function: Function, code_of: CodeOf) -> dict[str, Any]:
    return {
        "kernel": function.label,
        "op": function.profiles[0].op,
        **(function.workload.cells if function.workload else _no_axes(function.profiles[0].op)),
        "gpu": function.gpu,
        "arch": function.profiles[0].arch,
        "function": function.name,
        "launches": len(function.profiles),
        "source": function.source,
        "code": code_of(function.label, function.source).value,
        "report": str(function.path),
    }


def function_document(column: Function | CallSum, code_of: CodeOf) -> dict[str, Any]:
    """Returns one function for JSON: medians over its launches; null for missing values and NaN.

    A sum has null for quantities that do not add up, and no stalls. `rules`, what NVIDIA's rules say of the first
    launch, is there if the file holds them.
    """
    rules = column.profiles[0].rules if isinstance(column, Function) else ()
    return {
        **_column_identity(column, code_of),
        "quantities": _quantities(column),
        "stalls": column.stalls() if isinstance(column, Function) else {},
        **({"rules": [asdict(rule) for rule in rules]} if rules else {}),
    }


def _row(column: Function | CallSum, code_of: CodeOf) -> dict[str, Any]:
    found = column.stalls() if isinstance(column, Function) else {}
    stalls = {f"stall_{reason}": cycles for reason, cycles in found.items()}
    return {**_column_identity(column, code_of), **_quantities(column), **stalls}


def _column_identity(column: Function | CallSum, code_of: CodeOf) -> dict[str, Any]:
    if isinstance(column, Function):
        return _identity(column, code_of)
    return _identity(column.functions[0], code_of) | {"function": SUM}


def _quantities(column: Function | CallSum) -> dict[str, float | None]:
    return {quantity.key: _exact(column.median(quantity)) for quantity in QUANTITIES}


def _exact(value: float | None) -> float | None:
    """Returns a whole number as int: CSV rounds fractions to six digits, and counts have more."""
    return int(value) if value is not None and value.is_integer() else value


def difference_document(difference: FunctionDifference, code_of: CodeOf) -> dict[str, Any]:
    """Returns two functions and their changes, for JSON."""
    return {
        "before": _identity(difference.before, code_of),
        "after": _identity(difference.after, code_of),
        "compared": difference.compared,
        "has_spread": difference.has_spread,
        "moves": [_change(change) for change in difference.changes],
    }


def _difference_rows(difference: FunctionDifference, code_of: CodeOf) -> list[dict[str, Any]]:
    sides = {"before": difference.before, "after": difference.after}
    told = {f"{key}_{side}": value for side, one in sides.items() for key, value in _identity(one, code_of).items()}
    return [{**_change(change), **told} for change in difference.changes]


def _change(change: CounterChange) -> dict[str, Any]:
    before, after = change.medians
    return {
        "quantity": change.key,
        "group": change.group,
        "unit": change.unit,
        "before": _exact(before),
        "before_low": _exact(min(change.before)),
        "before_high": _exact(max(change.before)),
        "after": _exact(after),
        "after_low": _exact(min(change.after)),
        "after_high": _exact(max(change.after)),
        "ratio": change.ratio,
        "verdict": change.verdict,
    }
