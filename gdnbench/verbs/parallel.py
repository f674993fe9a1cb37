"""Several runs at once: one for each card of this machine."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from json import loads
from pathlib import Path

from rich.markup import escape

from gdnbench.analyse.exit_code import exit_code_of_rows, worst_exit_code
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import device_of
from gdnbench.codegen.builds import archs_of, build_cases
from gdnbench.errors import ExitCode, GdnbenchError
from gdnbench.machine.gpus import Cores, near_cores, share_cores, usable_cores
from gdnbench.measure.plan import Plan
from gdnbench.measure.timing import find_forms, in_every_form
from gdnbench.model.gpu import Gpu
from gdnbench.origin import on_option, out_option
from gdnbench.process.child import Child, exit_code_of_child
from gdnbench.process.command import describe_exit
from gdnbench.process.events import CommandEvent, TextPrinted
from gdnbench.render.console import message_console
from gdnbench.verbs.progress import watch
from gdnbench.verbs.run_tables import print_run
from gdnbench.verbs.show import print_joint, show_words

_POLL_S = 0.2
"""Seconds between checks for a Ctrl-C that came just before the wait for a run's end began."""


STOP_TIMEOUT_S = 15.0
"""Seconds that the runs have after a second Ctrl-C to end; a remote run ends its job in that time."""


@dataclass(frozen=True)
class RunJob:
    """One of several runs: its name (`GPU 0`), its arguments, and its logical cores (None for all)."""

    name: str
    arguments: tuple[str, ...]
    cores: Cores | None = None


@dataclass(frozen=True)
class RunOutcome:
    """How one of several runs ended; `folder` and `reason` may be missing, `code` is CRASHED after a signal."""

    name: str
    code: ExitCode
    reason: str
    folder: Path | None


def run_parallel(jobs: Sequence[RunJob], results: Path, tell: Callable[[str, str], None]) -> list[RunOutcome]:
    """Runs all jobs at once, with run folders below `results`, and returns when all have ended.

    Ctrl-C is sent to each run, which ends as it would alone. A second Ctrl-C is sent as well, and the runs that do not
    end within `STOP_TIMEOUT_S` are killed. `tell` gets a run's name and each line of its stderr, in that run's thread.
    """
    running: list[_Running] = []
    try:
        try:
            for job in jobs:
                running.append(_Running(job, tell))  # noqa: PERF401 - those begun are stopped where a later one fails
            _wait(running)
        except KeyboardInterrupt:
            _interrupt(running)
        return [each.outcome(results) for each in running]
    finally:
        for each in running:
            each.close()


def worst_code(outcomes: Iterable[RunOutcome], joint: ExitCode) -> ExitCode:
    """The gravest exit code of all runs and the joint table; a single run's A/A noise does not count."""
    return worst_exit_code([joint, *(each.code for each in outcomes if each.code is not ExitCode.NOISY)])


class _Running:
    """A run in progress, with a thread that follows it.

    The thread also waits for the process: Ctrl-C is raised in the main thread alone, and one between the return of the
    system's wait and the storing of its result would lose the exit code.
    """

    def __init__(self, job: RunJob, tell: Callable[[str, str], None]) -> None:
        self._name = job.name
        self._tell = tell
        self._printed: list[str] = []
        self._code = -9
        self.child = Child(job.arguments, self._observe, cores=job.cores)
        self.ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            self._code = self.child.follow()
        finally:
            self.ended.set()

    def _observe(self, event: CommandEvent) -> None:
        match event:
            case TextPrinted("stdout", text):
                self._printed.append(text)
            case TextPrinted(_, text):
                for line in filter(None, map(str.rstrip, text.splitlines())):
                    self._tell(self._name, line)

    def outcome(self, results: Path) -> RunOutcome:
        """How the run ended; to be called once it has."""
        code = exit_code_of_child(self._code)
        reason = "" if code == self._code else f"its run ended with {describe_exit(self._code)}"
        return RunOutcome(self._name, code, reason, self._folder(results))

    def _folder(self, results: Path) -> Path | None:
        try:
            folder = results / loads("".join(self._printed))["run"]["run_id"]
        except (ValueError, LookupError, TypeError):
            return None
        return folder if folder.is_dir() else None

    def close(self) -> None:
        self.child.kill()
        self.ended.wait(STOP_TIMEOUT_S)  # its thread reads until then
        self.child.close()


def _interrupt(running: Sequence[_Running]) -> None:
    """Sends Ctrl-C to all runs and waits; a KeyboardInterrupt during the wait is sent on as well, and raised."""
    for each in running:
        each.child.interrupt()
    try:
        _wait(running)
    except KeyboardInterrupt:
        for each in running:
            each.child.interrupt(again=True)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for each in running:
            each.ended.wait(max(0.0, deadline_s - time.monotonic()))
        raise


def _wait(running: Sequence[_Running]) -> None:
    for each in running:
        while not each.ended.wait(_POLL_S):
            pass


_REPLACED = {
    **{"--gpu": 1, "--label": 1, "--sort": 1, "--columns": 1},
    **{"--json": 0, "--csv": 0, "--markdown": 0, "--legend": 0},
}
"""Options of the command line that each card's run sets itself or has none of, and the number of values after each."""


def card_jobs(gpus: Sequence[Gpu], arguments: Sequence[str], label: str) -> tuple[list[RunJob], str]:
    """Returns the run of each card, its number behind the common label, and a line on the cores that each has."""
    usable = usable_cores()
    parts, is_near = share_cores(usable, near_cores(gpus))
    jobs = [
        RunJob(f"GPU {gpu.index}", tuple(card_arguments(arguments, gpu, label)), cores)
        for gpu, cores in zip(gpus, parts, strict=True)
    ]
    if len(usable) < len(gpus):
        return jobs, f"{len(usable)} cores for {len(gpus)} cards: they share all of them"
    count = min(map(len, parts))
    return jobs, f"each card's run has {count} cores of its own{', near its card' if is_near else ''}"


def card_arguments(arguments: Sequence[str], gpu: Gpu, label: str) -> list[str]:
    """The common command line with a card's GPU and label, and with JSON on stdout."""
    words, skipped = [], 0
    for word in arguments:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in _REPLACED:
            skipped = 0 if equals else _REPLACED[name]
        else:
            words.append(word)
    own = "-".join(filter(None, (label, f"card{gpu.index}")))
    confirmed = [] if "--yes" in words or "-y" in words else ["--yes"]
    return [*words[:1], *confirmed, "--gpu", gpu.uuid, "--label", own, "--json", *words[1:]]


def run_cards(
    catalog: Catalog, plan: Plan, cards: Sequence[Gpu], results: Path, *, json: bool, csv: bool, quiet: bool
) -> ExitCode:
    """Measures a plan of the first of several like cards on all at once; prints one table, returns the exit code."""
    console = message_console(quiet=quiet)
    with watch(quiet=quiet) as observer:  # once, for all of them find it in the cache
        forms = find_forms(catalog, plan.cases, device_of(plan.gpu))
        cases, limit_s = in_every_form(plan.cases, forms), plan.request.settings.step_limit_s
        build_cases(catalog, cases, archs_of(plan.gpu), limit_s, observer)
    jobs, note = card_jobs(cards, sys.argv[1:], plan.request.label)
    console.print(f"measuring on {len(cards)} cards at once; {note}", markup=False)

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
    reasons = [outcome.reason] if outcome.reason else []
    if not reasons and outcome.code not in _NO_FAILURES:
        reasons.append(f"exit code {outcome.code.value}, {outcome.code.meaning}")
    return reasons if outcome.folder else [*reasons, "its run wrote nothing"]


def _print_answer(outcomes: Sequence[RunOutcome], *, json: bool, csv: bool) -> ExitCode:
    """Prints the joint table of what was written, or each run where they have nothing in common."""
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
    return exit_code_of_rows(joint.measurements, interrupted=False)
