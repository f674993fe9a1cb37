"""What verification found: the worst error of each gate, where it is, and whether it passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.bench.verifying import Verdicts
from gdnbench.model import Case, GateResult, Status
from gdnbench.report.console import data_console, print_csv, print_json


def print_verdicts(verdicts: Verdicts, *, json: bool, csv: bool) -> None:
    """Prints a row per variant and gate: the worst over all shapes and inputs."""
    rows = [row for case in verdicts.cases for row in _rows(case, verdicts)]
    if json:
        print_json({"device": verdicts.device, "seed": verdicts.seed, "gates": rows})
    elif csv:
        print_csv(rows)
    else:
        _print_table(verdicts)


def _rows(case: Case, verdicts: Verdicts) -> list[dict[str, Any]]:
    verdict = verdicts.judged[case.id]
    common = {
        "kernel": case.variant.kernel,
        "label": case.label,
        **case.shape.axes(),
        "interpreted": case.id in verdicts.interpreted,
        "status": verdict.status.value,
        "reason": verdict.reason,
    }
    gates: list[dict[str, Any]] = [
        {"scenario": gate.scenario, "gate": gate.gate, "worst": gate.worst, "limit": gate.limit, "where": gate.where,
         "passed": gate.passed}
        for gate in verdict.gates
    ]  # fmt: skip
    empty: dict[str, Any] = {"scenario": "", "gate": "", "worst": None, "limit": None, "where": "", "passed": None}
    return [{**common, **gate} for gate in gates or [empty]]


def _print_table(verdicts: Verdicts) -> None:
    console = data_console()
    for label in dict.fromkeys(case.label for case in verdicts.cases):
        cases = [case for case in verdicts.cases if case.label == label]
        picked = ", ".join(dict.fromkeys(case.variant.in_full for case in cases if case.variant.is_picked))
        console.print(Text(f"{label}: {picked}" if picked else label, style="bold"))
        console.print(_gate_table(cases, verdicts))
        for reason in _reasons(cases, verdicts):
            console.print(reason)
    passed = sum(verdict.status is Status.OK for verdict in verdicts.judged.values())
    console.print(f"\n{passed} of {len(verdicts.cases)} cases pass on {verdicts.device}; seed {verdicts.seed}")
    console.print(f"next: gdnbench run --kernel {verdicts.cases[0].label}", markup=False, soft_wrap=True)


def _gate_table(cases: list[Case], verdicts: Verdicts) -> Table:
    """A row per gate: the worst over all shapes and inputs. Every kernel's columns stand under the last one's."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 1))
    table.add_column("gate", no_wrap=True, min_width=27)
    table.add_column("worst", justify="right", no_wrap=True, min_width=8)
    table.add_column("limit", no_wrap=True, min_width=8)
    table.add_column("verdict", no_wrap=True)
    table.add_column("where", overflow="fold")
    found = [(case, gate) for case in cases for gate in verdicts.judged[case.id].gates]
    for gate in dict.fromkeys(gate.gate for _, gate in found):
        case, worst = max(((c, g) for c, g in found if g.gate == gate), key=lambda pair: pair[1].worst)
        place = worst.where.replace(" ", "")
        where = f"B={case.shape.B} {worst.scenario} {place}" if worst.worst else ""
        table.add_row(*_gate_cells(worst), Text(where, style="dim"))
    return table


def _gate_cells(gate: GateResult) -> Iterable[Text]:
    verdict = Text("pass", style="green") if gate.passed else Text("FAIL", style="bold red")
    return Text(gate.gate), Text(f"{gate.worst:.3g}"), Text(f"of {gate.limit:g}"), verdict


def _reasons(cases: list[Case], verdicts: Verdicts) -> list[Text]:
    """Once each, what else befell a kernel: it crashed, hangs, or cannot run here."""
    found: dict[tuple[Status, str], Text] = {}
    for case in cases:
        verdict = verdicts.judged[case.id]
        if verdict.status is not Status.OK and all(gate.passed for gate in verdict.gates):
            style = "red" if verdict.status.is_failure else "dim"
            found.setdefault(
                (verdict.status, verdict.reason), Text(f"  {verdict.status}: {verdict.reason}", style=style)
            )
    return list(found.values())
