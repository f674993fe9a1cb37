"""Prints several runs as one table per workload, with the card as a random effect; or JSON or CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from gdnbench.analyse.cards import Card, Joint, join_runs
from gdnbench.model.measurement import Measurement
from gdnbench.origin import out_option
from gdnbench.render.console import data_console, print_csv, print_json, print_next
from gdnbench.render.units import flops_bind
from gdnbench.report.run.clocks import LEGEND, Clocks, print_clocks
from gdnbench.report.run.clocks import flat_rows as rows_of_run
from gdnbench.report.run.table import Beneath, has_times, print_workload, rows_at
from gdnbench.report.run.text import legend
from gdnbench.store.info import workload_titles
from gdnbench.wording import first_of, plural

_OF_A_RUN = ("run_id", "timestamp")


def joint_document(joint: Joint) -> dict[str, Any]:
    """Returns the runs, the cards, and a row per case and clock, of all cards together and of each."""
    strays = {stray.card: stray.share for stray in joint.strays}
    return {
        "runs": [run.info.run_id for run in joint.runs],
        "op": joint.info.op,
        "gpu": joint.info.gpu,
        "gpu_name": joint.runs[0].gpu_name,
        "cards": [_card(card, strays.get(number)) for number, card in enumerate(joint.cards)],
        "measurements": flat_rows(joint),
        "warnings": list(joint.warnings),
        "left_out": {why: list(cases) for why, cases in joint.left_out.items()},
    }


def _card(card: Card, strays_by: float | None) -> dict[str, Any]:
    return {
        "uuid": card.uuid,
        "index": card.index,
        "host": card.host,
        "runs": list(card.runs),
        "processes": card.processes,
        "rounds": card.rounds,
        "sm_mhz": card.sm_mhz,
        "deviation": card.deviation.share,
        "deviation_error": card.deviation.error,
        "strays_by": strays_by,
    }


def flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """Returns a row per case and clock, as of a run, without the run; `card` is empty for all cards together."""
    rows = _rows(joint, [*joint.measurements, *joint.failed], joint.clocks, card="", cards=len(joint.cards))
    for uuid, own in joint.by_card.items():
        rows += _rows(own, own.measurements, own.clocks, card=uuid, cards=1)
    return rows


def _rows(
    joint: Joint, measurements: Sequence[Measurement], clocks: Clocks, *, card: str, cards: int
) -> list[dict[str, Any]]:
    found = rows_of_run(joint.info, measurements, clocks)
    return [
        {"cards": cards, "card": card, **{name: cell for name, cell in row.items() if name not in _OF_A_RUN}}
        for row in found
    ]


_SHOWN = 6  # number of left-out cases that are named
_TIMES = " \u00d7 "


def headline(joint: Joint) -> Text:
    """Returns the headline: op, cards, and the numbers of processes, rounds and samples."""
    info, cards = joint.info, joint.cards
    device = joint.runs[0].gpu_name
    count = f"{len(cards)} " if len(cards) > 1 else ""
    text = Text(f"{info.op} on {count}{device}", style="bold")
    text.append(f": NVBench, cold L2, {_sampled(cards)} of ≤{info.settings['samples']} samples", style="not bold")
    if not all(run.info.complete for run in joint.runs):
        text.append("  (partial)", style="bold yellow")
    return text


def _sampled(cards: Sequence[Card]) -> str:
    """Returns cards, processes per card and rounds per process if all cards are alike, else the totals."""
    processes, rounds = cards[0].processes, cards[0].rounds
    alike = all((card.processes, card.rounds) == (processes, rounds) for card in cards)
    if alike and rounds % max(processes, 1) == 0:
        counts, sign = (len(cards), processes, rounds // max(processes, 1)), _TIMES
    else:
        counts, sign = (len(cards), sum(card.processes for card in cards), sum(card.rounds for card in cards)), ", "
    nouns = (("card", ""), ("process", "processes"), ("round", ""))
    return sign.join(plural(count, *noun) for count, noun in zip(counts, nouns, strict=True))


def legend_over(joint: Joint) -> str:
    """Returns what the intervals are over, for a run's legend."""
    return "rounds, processes and cards" if len(joint.cards) > 1 else "rounds and processes"


def stray_lines(joint: Joint) -> list[str]:
    """Returns a line per stray card; with two cards neither is the odd one."""
    return [_stray_line(joint.cards, stray.card, stray.share) for stray in joint.strays]


def _stray_line(cards: Sequence[Card], number: int, share: float) -> str:
    card = cards[number]
    others = [other for other in cards if other is not card]
    theirs = [other.sm_mhz for other in others if math.isfinite(other.sm_mhz)]
    clocks = ""
    if theirs and math.isfinite(card.sm_mhz):
        clocks = f"; SM clock {card.sm_mhz:.0f} MHz, theirs {sorted(theirs)[len(theirs) // 2]:.0f}"
    word = "longer" if share > 0 else "shorter"
    if len(others) == 1:
        clocks = clocks.replace("theirs", "its")
        told = f"{card.name} takes {abs(share):.1%} {word} than {others[0].name}{clocks}"
        return f"{told}; two cards do not tell which is usual"
    return f"{card.name} takes {abs(share):.1%} {word} than the others{clocks}"


def left_out_lines(joint: Joint) -> list[str]:
    """Returns a line per reason with the cases that were not joined."""
    return [
        f"{plural(len(cases), 'case')} {why}, so not joined: {first_of(cases, _SHOWN)}"
        for why, cases in joint.left_out.items()
    ]


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
    flops, by_kernel = flops_bind(joint.measurements), has_times(joint.clocks)
    titles = workload_titles(info)
    beneath = _beneath(joint) if by_card else {}
    told_already: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in (*joint.measurements, *joint.failed)):
        here = rows_at(workload, joint.measurements)
        title = titles.get(workload, str(workload))
        rows = [*here, *rows_at(workload, joint.failed)]
        clocks = {clock: rows_at(workload, rows) for clock, rows in joint.clocks.items()}
        kernel_times = clocks.get("cupti", ()) if by_kernel else None
        print_workload(console, info, rows, title, kernel_times, flops=flops, beneath=beneath, told=told_already)
        print_clocks(console, info, here, clocks)
    console.print()
    first = legend(info, flops=flops, over=legend_over(joint), by_kernel=by_kernel)
    told = [first, *map(Text, LEGEND if joint.clocks else ())]
    console.print(Text("\n").join(told), style="dim")
    for line in left_out_lines(joint):
        console.print(Text(line, style="dim"))
    if len(joint.cards) > 1 and not by_card:
        print_next(console, [*show_words(folders), "--by-card"])
    else:
        print_next(console, [*show_words(folders), "--csv"])


def _beneath(joint: Joint) -> Beneath:
    """Returns each card's time and ratio, to stand beneath the case's row."""
    names = {card.uuid: card.name for card in joint.cards}
    found: dict[str, list[tuple[str, Measurement, Measurement | None]]] = {}
    for uuid, own in joint.by_card.items():
        kernel_times = {row.case.id: row for row in own.clocks.get("cupti", ()) if row.timing}
        for row in own.measurements:
            found.setdefault(row.case.id, []).append((names[uuid], row, kernel_times.get(row.case.id)))
    return found
