"""Runs on every card of a machine at once: one ordinary `gdnbench run` a card, each a process with cores of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gdnbench.errors import ExitCode
from gdnbench.machine.cores import Cores, near_cores, share_cores, usable_cores
from gdnbench.measuring.exit_code import gravest_code
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import describe_exit, kill, start
from gdnbench.process.worker import python_path

if TYPE_CHECKING:
    from subprocess import Popen

_REPLACED = {"--gpu": 1, "--label": 1, "--json": 0, "--csv": 0}
"""Options of the command line that each card's run has of its own, and how many values follow each."""

_CHILD = (
    "import sys; from gdnbench.process.worker import die_with_parent; die_with_parent(); "
    "from gdnbench.cli.app import main; sys.exit(main())"
)
"""The command line, killed with the process that started it: a run that nobody waits for would keep its GPU."""


_HEED_S = 0.2
"""Seconds after which a Ctrl-C is noticed that came just before the wait for a run's end began."""


@dataclass(frozen=True)
class CardJob:
    """The run of one card.

    Attributes:
        gpu: the card.
        command: what to start.
        cores: the logical cores that it may use.
    """

    gpu: Gpu
    command: tuple[str, ...]
    cores: Cores


@dataclass(frozen=True)
class CardOutcome:
    """How the run of one card ended.

    Attributes:
        gpu: the card.
        code: its exit code; CRASHED where a signal ended it.
        reason: how it ended, in words; empty where it said so itself.
        folder: of its run; None where it wrote none.
    """

    gpu: Gpu
    code: ExitCode
    reason: str
    folder: Path | None


def card_jobs(gpus: Sequence[Gpu], arguments: Sequence[str], label: str) -> tuple[list[CardJob], str]:
    """The run of each card, and a line on the cores that each has.

    Args:
        gpus: the cards.
        arguments: the command line of all, behind `gdnbench`: the verb comes first.
        label: of all; each card's run adds its number to it.
    """
    usable = usable_cores()
    parts, is_near = share_cores(usable, near_cores(gpus))
    jobs = [
        CardJob(gpu, (sys.executable, "-c", _CHILD, *card_arguments(arguments, gpu, label)), cores)
        for gpu, cores in zip(gpus, parts, strict=True)
    ]
    if len(usable) < len(gpus):
        return jobs, f"{len(usable)} cores for {len(gpus)} cards: they share all of them"
    count = min(map(len, parts))
    return jobs, f"each card's run has {count} cores of its own{', near its card' if is_near else ''}"


def card_arguments(arguments: Sequence[str], gpu: Gpu, label: str) -> list[str]:
    """The command line of one card's run: that of all, with a GPU and a label of its own, and JSON on stdout."""
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


def run_on_cards(jobs: Sequence[CardJob], results: Path, tell: Callable[[Gpu, str], None]) -> list[CardOutcome]:
    """Runs all at once, and returns when all have ended. Ctrl-C reaches each, which ends as it would by itself.

    A second Ctrl-C kills them.

    Args:
        jobs: the runs.
        results: the folder that holds runs.
        tell: called with each line that a run says on stderr, from a thread of that run's.
    """
    running: list[_Running] = []
    try:
        try:
            for job in jobs:
                running.append(_Running(job, tell))  # noqa: PERF401 - those begun are stopped where a later one fails
            _wait(running)
        except KeyboardInterrupt:
            for each in running:
                each.interrupt()
            _wait(running)
        return [each.outcome(results) for each in running]
    finally:
        for each in running:
            each.close()


def worst_code(outcomes: Iterable[CardOutcome], joint: ExitCode) -> ExitCode:
    """The exit code of all: the gravest, with what the joint table says. A single card's A/A noise is not the answer's.

    Args:
        outcomes: of all cards.
        joint: what the cards together tell.
    """
    return gravest_code([joint, *(each.code for each in outcomes if each.code is not ExitCode.NOISY)])


class _Running:
    """A card's run under way: its process, what it prints on stdout, and a thread that passes its stderr on.

    The thread also waits for its end: Ctrl-C is raised in the main thread alone, and one that came between the system's
    answer and its being noted would lose the exit code.
    """

    def __init__(self, job: CardJob, tell: Callable[[Gpu, str], None]) -> None:
        from subprocess import PIPE

        self.job = job
        self._tell = tell
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.process: Popen[bytes] = start(
            job.command, environment={"PYTHONPATH": python_path()}, stdout=self._printed, stderr=PIPE
        )
        # Of the one thread that it has by now: whatever it starts inherits them.
        os.sched_setaffinity(self.process.pid, job.cores)
        self.ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self.process.stderr
        try:
            for line in self.process.stderr:
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._tell(self.job.gpu, text)
        finally:
            self.process.wait()
            self.ended.set()

    def interrupt(self) -> None:
        """Ctrl-C, to this process alone: it stops its own workers."""
        self.process.send_signal(signal.SIGINT)

    def outcome(self, results: Path) -> CardOutcome:
        """How it ended, once it has."""
        code, folder = self.process.returncode, self._folder(results)
        known = next((each for each in ExitCode if each == code), None)
        reason = f"its run ended with {describe_exit(code)}" if known is None else ""
        return CardOutcome(self.job.gpu, ExitCode.CRASHED if known is None else known, reason, folder)

    def _folder(self, results: Path) -> Path | None:
        """Of the run that it printed."""
        self._printed.seek(0)
        try:
            folder = results / json.load(self._printed)["run"]["run_id"]
        except (ValueError, LookupError, TypeError):
            return None
        return folder if folder.is_dir() else None

    def close(self) -> None:
        """Kills it where it still runs."""
        kill(self.process)
        self._printed.close()


def _wait(running: Sequence[_Running]) -> None:
    """Until all have ended.

    Raises:
        KeyboardInterrupt: at Ctrl-C.
    """
    for each in running:
        while not each.ended.wait(_HEED_S):
            pass
