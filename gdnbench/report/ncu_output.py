"""What `gdnbench ncu` prints: a table, what moved, JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gdnbench.model import CodeState, Shape
from gdnbench.profilers.ncu.difference import Difference
from gdnbench.profilers.ncu.functions import Function
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.ncu_diff import moved
from gdnbench.report.ncu_rows import difference_document, difference_rows, document, row
from gdnbench.report.ncu_table import tables
from gdnbench.report.other_code import CodeOf, other_code


def print_functions(functions: Sequence[Function], code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints functions side by side, and which of them are of other code than their kernels' is now."""
    if json:
        print_json([document(function, code_of) for function in functions])
    elif csv:
        print_csv([row(function, code_of) for function in functions])
    else:
        console = data_console()
        console.print(tables(console, functions))
        _print_end(console, functions, code_of, _after_table(functions))


def print_differences(differences: Sequence[Difference], code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints what moved, pair by pair."""
    if json:
        print_json([difference_document(difference, code_of) for difference in differences])
    elif csv:
        print_csv([row for difference in differences for row in difference_rows(difference, code_of)])
    else:
        console = data_console()
        for difference in differences:
            console.print(moved(difference))
        functions = [one for difference in differences for one in (difference.before, difference.after)]
        _print_end(console, functions, code_of, ["gdnbench", "ncu", "--import", *_paths(functions)])


def _print_end(console: Console, functions: Sequence[Function], code_of: CodeOf, command: Sequence[str]) -> None:
    for path in _paths(functions):
        console.print(Text(f"report: {path}", style="dim"), soft_wrap=True)
        here = [one for one in functions if str(one.path) == path]
        changed = [one.label for one in here if code_of(one.label, one.source) is CodeState.CHANGED]
        for label in dict.fromkeys(changed):
            console.print(Text(f"        {other_code(label)}", style="yellow"), soft_wrap=True)
    if command:
        print_next(console, command)


def _after_table(functions: Sequence[Function]) -> list[str]:
    """Of one kernel why it is slow, of several what moved from the first to the second; empty where nothing follows."""
    first, paths = functions[0], _paths(functions)
    if len(paths) > 1:
        both = [str(function.path) for function in functions if str(function.path) in paths[:2]]
        return ["gdnbench", "ncu", "--import", paths[0], "--diff", paths[1]] if len(both) == 2 else []
    if first.label and first.shape:
        heads = [] if first.shape.heads == Shape().heads else ["--heads", first.shape.heads]
        return ["gdnbench", "explain", first.label, "--shape", f"B={first.shape.B}", *heads, "--from", paths[0]]
    return ["ncu-ui", paths[0]] if paths[0].endswith(".ncu-rep") else []


def _paths(functions: Sequence[Function]) -> list[str]:
    paths: dict[Path, None] = dict.fromkeys(function.path for function in functions)
    return [str(path) for path in paths]
