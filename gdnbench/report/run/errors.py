"""Prints each kernel's largest errors against the oracle, to compare the accuracy of kernels."""

from __future__ import annotations

from rich.text import Text

from gdnbench.report.console import data_console, plain_table
from gdnbench.store.info import RunInfo
from gdnbench.store.schema import LargestErrorDocument


def print_errors(info: RunInfo) -> None:
    """Prints a row per kernel with its largest error by each gate, most accurate by the first gate first.

    Errors are in the unit of the gate's limit, over all inputs and workloads on which the run verified the kernel.
    """
    console = data_console()
    console.print()
    if not info.errors:
        console.print(Text("no errors are stored with this run: those of this gdnbench have them", style="dim"))
        return
    gates = list(dict.fromkeys(gate for errors in info.errors.values() for gate in errors))
    table = plain_table()
    table.add_column("kernel", overflow="fold")
    limits = {gate: error["limit"] for errors in info.errors.values() for gate, error in errors.items()}
    for gate in gates:
        table.add_column(f"{gate}\nof {limits[gate]:.4g}", justify="right")
    kernels = sorted(info.errors.items(), key=lambda item: [_worst(item[1].get(gate)) for gate in gates])
    for label, errors in kernels:
        cells = (f"{errors[gate]['worst']:.3g}" if gate in errors else "" for gate in gates)
        table.add_row(Text(label, style="cyan"), *cells)
    console.print(Text("largest errors against the float64 oracle", style="bold"))
    console.print(table)


def _worst(error: LargestErrorDocument | None) -> float:
    return error["worst"] if error else float("inf")
