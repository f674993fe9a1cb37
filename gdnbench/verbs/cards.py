"""`gdnbench run --gpu all`: one run a card, all at once, and one table of all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.measure.builds import archs_of, build_cases
from gdnbench.measure.exit_code import exit_code_of
from gdnbench.measure.measure import find_forms, in_every_form
from gdnbench.measure.parallel_runs import RunJob, RunOutcome, card_jobs, run_at_once, worst_code
from gdnbench.measure.plan import Plan
from gdnbench.measure.request import device_of
from gdnbench.model.gpu import Gpu
from gdnbench.origin import on_option, out_option
from gdnbench.render.console import message_console
from gdnbench.report.cards import print_joint, show_words
from gdnbench.report.run.table import print_run
from gdnbench.verbs.progress import watch


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
