"""Prints several runs as one table per workload, with the card as a random effect; or JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gdnbench.compare.cards import Joint, join_runs
from gdnbench.model.measurement import Measurement
from gdnbench.model.workload import Workload
from gdnbench.places import out_option
from gdnbench.report.cards.json import flat_rows, joint_document
from gdnbench.report.cards.text import headline, left_out_lines, legend_over, stray_lines
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.phrases import flops_bind
from gdnbench.report.run.clocks import LEGEND, print_clocks
from gdnbench.report.run.table import Beneath, print_workload, rows_at
from gdnbench.report.run.text import legend
from gdnbench.store.info import workload_titles


def show_words(folders: Sequence[Path]) -> list[str]:
    """Returns the command that prints the joint table of stored runs."""
    parents = list(dict.fromkeys(folder.parent for folder in folders))
    if len(parents) > 1:
        return ["gdnbench", "show", *map(str, folders)]
    return ["gdnbench", "show", *(folder.name for folder in folders), *out_option(parents[0])]


def print_joint(folders: Sequence[Path], *, json: bool, csv: bool, by_card: bool = False) -> Joint:
    """Joins and prints runs, `by_card` with a row per card; raises UsageError if unjoinable, or RunFormatError."""
    joint = join_runs(folders)
    if json:
        print_json(joint_document(joint))
    elif csv:
        print_csv(flat_rows(joint))
    else:
        _print_tables(joint, folders, by_card=by_card)
    return joint


def _print_tables(joint: Joint, folders: Sequence[Path], *, by_card: bool) -> None:
    console, info = data_console(), joint.info
    console.print(headline(joint))
    for warning in joint.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    for line in stray_lines(joint):
        console.print(Text(line, style="bold yellow"))
    flops = flops_bind(joint.measurements)
    titles = workload_titles(info)
    beneath = _beneath(joint) if by_card else {}
    told_already: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in (*joint.measurements, *joint.failed)):
        here = rows_at(workload, joint.measurements)
        title = titles.get(workload, str(workload))
        rows = [*here, *rows_at(workload, joint.failed)]
        print_workload(console, info, rows, title, flops=flops, beneath=beneath, told=told_already)
        _print_clocks(console, joint, workload, here)
    console.print()
    told = [legend(info, flops=flops, over=legend_over(joint)), *map(Text, LEGEND if joint.clocks else ())]
    console.print(Text("\n").join(told), style="dim")
    for line in left_out_lines(joint):
        console.print(Text(line, style="dim"))
    if len(joint.cards) > 1 and not by_card:
        print_next(console, [*show_words(folders), "--by-card"])
    else:
        print_next(console, [*show_words(folders), "--csv"])


def _print_clocks(console: Console, joint: Joint, workload: Workload, here: Sequence[Measurement]) -> None:
    clocks = {clock: rows_at(workload, rows) for clock, rows in joint.clocks.items()}
    print_clocks(console, joint.info, here, clocks)


def _beneath(joint: Joint) -> Beneath:
    """Returns each card's time and ratio, to stand beneath the case's row."""
    names = {card.uuid: card.name for card in joint.cards}
    found: dict[str, list[tuple[str, Measurement]]] = {}
    for uuid, own in joint.by_card.items():
        for row in own.measurements:
            found.setdefault(row.case.id, []).append((names[uuid], row))
    return found
