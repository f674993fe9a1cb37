"""The texts of joined runs: headline, what intervals are over, stray cards, and cases left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from gdnbench.compare.cards import Card, Joint
from gdnbench.wording import first_of, plural

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
