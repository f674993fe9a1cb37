"""Several runs at once: one for each card of this machine, or parts of one, each a task of a cluster's queue."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.resolve import find_op, resolve_op
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.measure.builds import archs_of, build_cases
from gdnbench.measure.exit_code import exit_code_of
from gdnbench.measure.measure import find_forms, in_every_form
from gdnbench.measure.parallel_runs import RunJob, RunOutcome, card_jobs, run_parallel, worst_code
from gdnbench.measure.plan import Plan
from gdnbench.measure.request import device_of, workloads_asked
from gdnbench.model.case import Part
from gdnbench.model.gpu import Gpu
from gdnbench.origin import on_option, out_option
from gdnbench.remote.job import TypedOption, forwarded_args
from gdnbench.remote.targets import NamedTarget
from gdnbench.report.cards import print_joint, show_words
from gdnbench.report.console import message_console
from gdnbench.report.run.table import print_run
from gdnbench.store.info import read_info
from gdnbench.verb_table import VERBS
from gdnbench.verbs.options import sizes, terms
from gdnbench.verbs.progress import watch
from gdnbench.verbs.runs import print_merged


def run_cards(
    catalog: Catalog, plan: Plan, cards: Sequence[Gpu], results: Path, *, json: bool, csv: bool, quiet: bool
) -> ExitCode:
    """Measures a plan, of the first card, on several cards of one model at once, and prints one table.

    Returns the exit code. Raises MachineError if a compiler is missing, or the build cache cannot be written.
    """
    console = message_console(quiet=quiet)
    with watch(quiet=quiet) as observer:  # once, for all of them find it in the cache
        forms = find_forms(catalog, plan.cases, device_of(plan.gpu))
        cases, limit_s = in_every_form(plan.cases, forms), plan.request.settings.step_limit_s
        build_cases(catalog, cases, archs_of(plan.gpu), limit_s, observer)
    jobs, told = card_jobs(cards, sys.argv[1:], plan.request.label)
    console.print(f"measuring on {len(cards)} cards at once; {told}", markup=False)

    outcomes = run_and_report(jobs, results)
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


def run_and_report(jobs: Sequence[RunJob], results: Path) -> list[RunOutcome]:
    """Runs all at once, and says on stderr what they say, and which of them fail."""
    errors = message_console()  # of a run that is to be quiet, all that it says is an error

    def print_line(name: str, line: str) -> None:
        errors.print(f"[bold]{name}:[/] {escape(line)}", soft_wrap=True)

    outcomes = run_parallel(jobs, results, print_line)
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


_WHOLE = ("part", "resume", "dry_run", "inputs")
"""Of commands that are not split: of a part, of a run that was begun, of files, or such as measure nothing."""

_OF_ALL = {"on", "part", "seed", "json", "csv", "plot", "emit_dispatch"}
"""Parameters that a part has of its own, or that are of the run that is made of all."""


def count_parts(tasks: int, verb: str, params: Mapping[str, Any]) -> int:
    """Returns into how many parts a command is split, at most `tasks`: 1 if it is not.

    Raises GdnbenchError for kernels, workloads or a suite that do not exist.
    """
    if not VERBS[verb].splits or any(params.get(name) for name in _WHOLE) or _is_several(params["gpu"]):
        return 1
    catalog = load_catalog()
    names = [*terms(params["kernels"], params["kernel"]), params["baseline"]]
    op = find_op(catalog, resolve_op(catalog, params["op"], names))
    return min(tasks, len(workloads_asked(op, sizes(params["shape"]), params.get("suite") or "")))


def _is_several(gpu: str) -> bool:
    """Whether `--gpu` asks for several cards: those are a run each already."""
    return gpu.strip().lower() == "all" or "," in gpu


def run_parts(
    named: NamedTarget, verb: str, typed: Sequence[TypedOption], params: Mapping[str, Any], count: int
) -> ExitCode:
    """Runs the parts of `run` or `sweep` on a target at once, merges them and prints the run; returns its exit code."""
    results: Path = params["results"]
    seed = secrets.randbelow(2**31) if params["seed"] is None else params["seed"]
    shared = forwarded_args(typed, _OF_ALL)
    jobs = []
    for number in range(1, count + 1):
        own = ("--on", named.name, "--part", str(Part(number, count)), "--seed", str(seed), "--json")
        jobs.append(RunJob(f"part {number}", (verb, *own, *shared)))
    console = message_console(quiet=params["quiet"])
    console.print(f"on {named.name} ({named.described}), in {count} parts at once", markup=False)
    outcomes = run_and_report(jobs, results)
    folders = [each.folder for each in outcomes if each.folder and read_info(each.folder).complete]
    if len(folders) < count:
        print_resume_commands(named, outcomes, results)
        return worst_code(outcomes, ExitCode.PARTIAL)
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    return worst_code(outcomes, print_merged(folders, results, command=command, params=params))


def print_resume_commands(named: NamedTarget, outcomes: Sequence[RunOutcome], results: Path) -> None:
    """How to finish the parts that are not complete, and to make one run of all then."""
    own = ["--on", named.name, *out_option(results)]
    console = message_console()
    for each in outcomes:
        if each.folder and not read_info(each.folder).complete:
            words = ["gdnbench", "run", "--resume", each.folder.name, *own]
            console.print(f"{each.name}: finish it: {shlex.join(words)}", markup=False, soft_wrap=True)
    runs = [each.folder.name if each.folder else each.name.upper().replace(" ", "") for each in outcomes]
    words = ["gdnbench", "runs", "merge", *runs, *out_option(results)]
    console.print(f"once all parts are complete: {shlex.join(words)}", markup=False, soft_wrap=True)
