"""Prints several runs as one table per workload, with the card as a random effect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from gdnbench.analyse.cards import Card, Joint, join_runs
from gdnbench.analyse.suite import fastest_of_joint
from gdnbench.model.measurement import Measurement
from gdnbench.origin import out_option
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Note
from gdnbench.render.units import flops_bind
from gdnbench.store.info import workload_titles
from gdnbench.verbs.run_clocks import LEGEND, Clocks, clock_blocks, has_times
from gdnbench.verbs.run_clocks import flat_rows as rows_of_run
from gdnbench.verbs.run_notes import fastest_lines, legend, warning_notes
from gdnbench.verbs.run_tables import WorkloadView, rows_at
from gdnbench.wording import first_of, plural


def print_joint(folders: Sequence[Path], *, json: bool, csv: bool) -> Joint:
    """Joins and prints runs, with the card as a random effect."""
    joint = join_runs(folders)
    answer = Answer(
        text=partial(_text, joint),
        document=lambda: _document(joint),
        records=lambda: _flat_rows(joint),
        next=[*show_words(folders), "--csv"],
    )
    print_answer(answer, json=json, csv=csv)
    return joint


def show_words(folders: Sequence[Path]) -> list[str]:
    """Returns the command that prints the joint table of stored runs."""
    parents = list(dict.fromkeys(folder.parent for folder in folders))
    if len(parents) > 1:
        return ["gdnbench", "show", *map(str, folders)]
    return ["gdnbench", "show", *(folder.name for folder in folders), *out_option(parents[0])]


def _document(joint: Joint) -> dict[str, Any]:
    strays = {stray.card: stray.share for stray in joint.strays}
    return {
        "runs": [run.info.run_id for run in joint.runs],
        "op": joint.info.op,
        "gpu": joint.info.gpu,
        "gpu_name": joint.runs[0].gpu_name,
        "cards": [
            {
                "uuid": card.uuid,
                "index": card.index,
                "host": card.host,
                "runs": list(card.runs),
                "processes": card.processes,
                "rounds": card.rounds,
                "sm_mhz": card.sm_mhz,
                "deviation": card.deviation.share,
                "deviation_error": card.deviation.error,
                "strays_by": strays.get(number),
            }
            for number, card in enumerate(joint.cards)
        ],
        "measurements": _flat_rows(joint),
        "warnings": list(joint.warnings),
        "left_out": {why: list(cases) for why, cases in joint.left_out.items()},
    }


def _flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """Returns a row per case and clock, as of a run, without the run; `card` is empty for all cards together."""
    rows = _rows(joint, [*joint.measurements, *joint.failed], joint.clocks, card="", cards=len(joint.cards))
    for uuid, card in joint.by_card.items():
        rows += _rows(card, card.measurements, card.clocks, card=uuid, cards=1)
    return rows


def _rows(
    joint: Joint, measurements: Sequence[Measurement], clocks: Clocks, *, card: str, cards: int
) -> list[dict[str, Any]]:
    of_a_run = {"run_id", "timestamp"}
    return [
        {"cards": cards, "card": card, **{name: value for name, value in row.items() if name not in of_a_run}}
        for row in rows_of_run(joint.info, measurements, clocks)
    ]


_SHOWN = 6  # number of left-out cases that are named
_TIMES = " \u00d7 "


def _text(joint: Joint, width: int) -> Iterator[Block]:
    info, over = joint.info, "rounds, processes and cards" if len(joint.cards) > 1 else "rounds and processes"
    yield _headline(joint)
    yield from warning_notes(joint.warnings)
    yield from (Text(_stray_line(joint.cards, stray.card, stray.share), "bold yellow") for stray in joint.strays)
    flops, by_kernel = flops_bind(joint.measurements), has_times(joint.clocks)
    titles = workload_titles(info)
    printed: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in (*joint.measurements, *joint.failed)):
        timed = rows_at(workload, joint.measurements)
        rows = [*timed, *rows_at(workload, joint.failed)]
        clocks = {clock: rows_at(workload, each) for clock, each in joint.clocks.items()}
        kernel_times, title = clocks.get("cupti", ()) if by_kernel else None, titles.get(workload, str(workload))
        view = WorkloadView(info, rows, title, kernel_times, flops=flops)
        yield from view.blocks(width, printed)
        yield from clock_blocks(info, timed, clocks, width)
    yield ""
    first = legend(info, flops=flops, over=over, by_kernel=by_kernel)
    yield Note("\n".join([first, *(LEGEND if joint.clocks else ())]), "meaning")
    for why, cases in joint.left_out.items():
        yield Note(f"{plural(len(cases), 'case')} {why}, so not joined: {first_of(cases, _SHOWN)}", "legend")
    found = {
        workload: fastest_of_joint(info, rows_at(workload, joint.measurements), times)
        for workload, times in joint.times.items()
    }
    best = {workload: each for workload, each in found.items() if each}
    yield from (Note(line, "summary") for line in fastest_lines(best, info))


def _headline(joint: Joint) -> Text:
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


def _stray_line(cards: Sequence[Card], number: int, share: float) -> str:
    card = cards[number]
    others = [other for other in cards if other is not card]
    others_mhz = [other.sm_mhz for other in others if math.isfinite(other.sm_mhz)]
    clocks = ""
    if others_mhz and math.isfinite(card.sm_mhz):
        clocks = f"; SM clock {card.sm_mhz:.0f} MHz, theirs {sorted(others_mhz)[len(others_mhz) // 2]:.0f}"
    word = "longer" if share > 0 else "shorter"
    if len(others) == 1:
        clocks = clocks.replace("theirs", "its")
        text = f"{card.name} takes {abs(share):.1%} {word} than {others[0].name}{clocks}"
        return f"{text}; two cards do not tell which is usual"
    return f"{card.name} takes {abs(share):.1%} {word} than the others{clocks}"
