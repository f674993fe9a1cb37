"""Runs several `gdnbench` commands at once, each in a process of its own, and one per card of a machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import Cores, near_cores, share_cores, usable_cores
from gdnbench.measure.exit_code import gravest_code
from gdnbench.model.gpu import Gpu
from gdnbench.process.child import Child, exit_code_of_child
from gdnbench.process.command import describe_exit
from gdnbench.process.events import CommandEvent, TextPrinted

_POLL_S = 0.2
"""Seconds between checks for a Ctrl-C that came just before the wait for a run's end began."""


STOP_TIMEOUT_S = 15.0
"""Seconds that the runs have after a second Ctrl-C to end; a remote run ends its job in that time."""


@dataclass(frozen=True)
class RunJob:
    """One of several runs: its name (`GPU 0`, `part 2`), its arguments, and its logical cores (None for all)."""

    name: str
    arguments: tuple[str, ...]
    cores: Cores | None = None


@dataclass(frozen=True)
class RunOutcome:
    """How one of several runs ended; `folder` is None if it wrote none, `code` is CRASHED if a signal ended it.

    `reason` is empty if the run reported its end itself.
    """

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
    return gravest_code([joint, *(each.code for each in outcomes if each.code is not ExitCode.NOISY)])


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
            case _:
                pass

    def outcome(self, results: Path) -> RunOutcome:
        """How the run ended; to be called once it has."""
        code = exit_code_of_child(self._code)
        reason = "" if code == self._code else f"its run ended with {describe_exit(self._code)}"
        return RunOutcome(self._name, code, reason, self._folder(results))

    def _folder(self, results: Path) -> Path | None:
        """The folder of the run that it printed, or None if there is none."""
        try:
            folder = results / json.loads("".join(self._printed))["run"]["run_id"]
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


_REPLACED = {"--gpu": 1, "--label": 1, "--json": 0, "--csv": 0}
"""Options of the command line that each card's run sets itself, and the number of values after each."""


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
    kept, skipped = [], 0
    for word in arguments:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in _REPLACED:
            skipped = 0 if equals else _REPLACED[name]
        else:
            kept.append(word)
    own = "-".join(filter(None, (label, f"card{gpu.index}")))
    confirmed = [] if "--yes" in kept or "-y" in kept else ["--yes"]
    return [*kept[:1], *confirmed, "--gpu", gpu.uuid, "--label", own, "--json", *kept[1:]]
