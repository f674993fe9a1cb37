"""What `gdnbench ncu` prints: a table, what moved, JSON or CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gdnbench.model import Shape
from gdnbench.profilers.ncu.difference import Difference
from gdnbench.profilers.ncu.functions import Function
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.ncu_diff import moved
from gdnbench.report.ncu_rows import difference_document, difference_rows, document, row
from gdnbench.report.ncu_table import tables


def print_functions(functions: Sequence[Function], *, json: bool, csv: bool) -> None:
    """Prints functions side by side."""
    if json:
        print_json([document(function) for function in functions])
    elif csv:
        print_csv([row(function) for function in functions])
    else:
        console = data_console()
        console.print(tables(console, functions))
        _print_end(console, functions, _after_table(functions))


def print_differences(differences: Sequence[Difference], *, json: bool, csv: bool) -> None:
    """Prints what moved, pair by pair."""
    if json:
        print_json([difference_document(difference) for difference in differences])
    elif csv:
        print_csv([row for difference in differences for row in difference_rows(difference)])
    else:
        console = data_console()
        for difference in differences:
            console.print(moved(difference))
        functions = [one for difference in differences for one in (difference.before, difference.after)]
        _print_end(console, functions, ["gdnbench", "ncu", "--import", *_paths(functions)])


def _print_end(console: Console, functions: Sequence[Function], command: Sequence[str]) -> None:
    for path in _paths(functions):
        console.print(Text(f"report: {path}", style="dim"), soft_wrap=True)
    if command:
        console.print(f"next: {shlex.join(command)}", markup=False, soft_wrap=True)


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
