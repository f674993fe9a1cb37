"""`gdnbench run --gpu all` and `show RUN RUN`: one run a card, all at once, and one table of all."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

from gdnbench.analyse.cards import Card, Joint, join_runs
from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.measure.builds import archs_of, build_cases
from gdnbench.measure.exit_code import exit_code_of
from gdnbench.measure.measure import find_forms, in_every_form
from gdnbench.measure.parallel_runs import RunJob, RunOutcome, card_jobs, run_at_once, worst_code
from gdnbench.measure.plan import Plan
from gdnbench.measure.request import device_of
from gdnbench.model.gpu import Gpu
from gdnbench.model.measurement import Measurement
from gdnbench.origin import on_option, out_option
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Note
from gdnbench.render.units import flops_bind
from gdnbench.store.info import workload_titles
from gdnbench.verbs.progress import watch
from gdnbench.verbs.run_clocks import LEGEND, Clocks, clock_blocks, has_times
from gdnbench.verbs.run_clocks import flat_rows as rows_of_run
from gdnbench.verbs.run_notes import legend
from gdnbench.verbs.run_tables import Beneath, WorkloadView, print_run, rows_at
from gdnbench.wording import first_of, plural


def run_cards(
    catalog: Catalog, plan: Plan, cards: Sequence[Gpu], results: Path, *, json: bool, csv: bool, quiet: bool
) -> ExitCode:
    """Measures a plan on several cards at once and prints one table; gives the exit code.

    Args:
        catalog: what there is.
        plan: what to measure, on the first of the cards.
        cards: where, of one model.
        results: the folder that holds runs.
        json: print a JSON document.
        csv: print rows of CSV.
        quiet: no progress and no notes.

    Raises:
        MachineError: if a compiler is absent, or the build cache cannot be written.
    """
    console = message_console(quiet=quiet)
    with watch(quiet=quiet) as observer:  # once, for all of them find it in the cache
        forms = find_forms(catalog, plan.cases, device_of(plan.gpu))
        cases, limit_s = in_every_form(plan.cases, forms), plan.request.settings.step_limit_s
        build_cases(catalog, cases, archs_of(plan.gpu), limit_s, observer)
    jobs, told = card_jobs(cards, sys.argv[1:], plan.request.label)
    console.print(f"measuring on {len(cards)} cards at once; {told}", markup=False)

    outcomes = run_and_tell(jobs, results)
    if not any(each.folder for each in outcomes):
        return worst_code(outcomes, ExitCode.ENVIRONMENT)
    joint = _print_answer(outcomes, json=json, csv=csv)
    if ExitCode.INTERRUPTED in {each.code for each in outcomes}:
        for each in outcomes:
            if each.folder:
                words = ["gdnbench", "run", "--resume", each.folder.name, *out_option(results)]
                words += on_option(words)
                console.print(f"{each.name}: finish it: {shlex.join(words)}", markup=False, soft_wrap=True)
    return worst_code(outcomes, joint)


def run_and_tell(jobs: Sequence[RunJob], results: Path) -> list[RunOutcome]:
    """Runs all at once, and says on stderr what they say, and which of them fail."""
    errors = message_console()  # of a run that is to be quiet, all that it says is an error

    def tell(name: str, line: str) -> None:
        errors.print(f"[bold]{name}:[/] {escape(line)}", soft_wrap=True)

    outcomes = run_at_once(jobs, results, tell)
    for each in outcomes:
        for line in _failures(each):
            errors.print(f"{each.name}: {line}", style="red", markup=False, soft_wrap=True)
    return outcomes


_NO_FAILURES = {ExitCode.OK, ExitCode.NOISY, ExitCode.INTERRUPTED}


def _failures(outcome: RunOutcome) -> list[str]:
    """What to say of how a run ended; nothing of one that is whole or was stopped."""
    told = [outcome.reason] if outcome.reason else []
    if not told and outcome.code not in _NO_FAILURES:
        told.append(f"exit code {outcome.code.value}, {outcome.code.meaning}")
    return told if outcome.folder else [*told, "its run wrote nothing"]


def _print_answer(outcomes: Sequence[RunOutcome], *, json: bool, csv: bool) -> ExitCode:
    """The joint table of what was written, or the one run that was; gives what it tells.

    Runs that have nothing in common, as where one was stopped before it measured, are printed one by one.
    """
    folders = [each.folder for each in outcomes if each.folder]
    if len(folders) == 1:
        print_run(folders[0], json=json, csv=csv)
        return ExitCode.OK
    console = message_console()
    try:
        joint = print_joint(folders, json=json, csv=csv)
    except GdnbenchError as error:
        console.print(f"the runs are not joined: {error.message}", markup=False)
        for folder in () if json or csv else folders:
            print_run(folder, json=False, csv=False)
        return ExitCode.OK
    console.print(f"printed again by: {shlex.join(show_words(folders))}", markup=False, soft_wrap=True)
    return exit_code_of(joint.measurements, interrupted=False)


def print_joint(folders: Sequence[Path], *, json: bool, csv: bool, by_card: bool = False) -> Joint:
    """Joins and prints runs, with the card as a random effect; `by_card` adds a row per card.

    Raises UsageError if they cannot be joined, RunFormatError if one cannot be read.
    """
    joint = join_runs(folders)
    more = "--by-card" if len(joint.cards) > 1 and not by_card else "--csv"
    answer = Answer(
        text=partial(_text, joint, by_card),
        document=lambda: _document(joint),
        records=lambda: _flat_rows(joint),
        next=[*show_words(folders), more],
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
        "cards": [_card(card, strays.get(number)) for number, card in enumerate(joint.cards)],
        "measurements": _flat_rows(joint),
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


def _flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """Returns a row per case and clock, as of a run, without the run; `card` is empty for all cards together."""
    rows = _rows(joint, [*joint.measurements, *joint.failed], joint.clocks, card="", cards=len(joint.cards))
    for uuid, own in joint.by_card.items():
        rows += _rows(own, own.measurements, own.clocks, card=uuid, cards=1)
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


def _text(joint: Joint, by_card: bool, width: int) -> Iterator[Block]:
    info, over = joint.info, "rounds, processes and cards" if len(joint.cards) > 1 else "rounds and processes"
    yield _headline(joint)
    yield from (Note(warning, "warning") for warning in joint.warnings)
    yield from (Text(_stray_line(joint.cards, stray.card, stray.share), "bold yellow") for stray in joint.strays)
    flops, by_kernel = flops_bind(joint.measurements), has_times(joint.clocks)
    titles = workload_titles(info)
    beneath = _beneath(joint) if by_card else {}
    printed: set[str] = set()
    for workload in dict.fromkeys(row.case.workload for row in (*joint.measurements, *joint.failed)):
        timed = rows_at(workload, joint.measurements)
        rows = [*timed, *rows_at(workload, joint.failed)]
        clocks = {clock: rows_at(workload, each) for clock, each in joint.clocks.items()}
        kernel_times, title = clocks.get("cupti", ()) if by_kernel else None, titles.get(workload, str(workload))
        view = WorkloadView(info, rows, title, kernel_times, flops=flops, beneath=beneath)
        yield from view.blocks(width, printed)
        yield from clock_blocks(info, timed, clocks, width)
    yield ""
    first = legend(info, flops=flops, over=over, by_kernel=by_kernel)
    yield Note("\n".join([first, *(LEGEND if joint.clocks else ())]), "legend")
    for why, cases in joint.left_out.items():
        yield Note(f"{plural(len(cases), 'case')} {why}, so not joined: {first_of(cases, _SHOWN)}", "legend")


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


def _beneath(joint: Joint) -> Beneath:
    """Returns each card's time and ratio, to stand beneath the case's row."""
    names = {card.uuid: card.name for card in joint.cards}
    rows: dict[str, list[tuple[str, Measurement, Measurement | None]]] = {}
    for uuid, own in joint.by_card.items():
        kernel_times = {row.case.id: row for row in own.clocks.get("cupti", ()) if row.timing}
        for row in own.measurements:
            rows.setdefault(row.case.id, []).append((names[uuid], row, kernel_times.get(row.case.id)))
    return rows
