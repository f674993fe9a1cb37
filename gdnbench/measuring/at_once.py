"""Several runs at once, each an ordinary `gdnbench` command in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gdnbench.errors import ExitCode
from gdnbench.machine.cores import Cores
from gdnbench.measuring.exit_code import gravest_code
from gdnbench.process.command import PYTHON, describe_exit, kill, start
from gdnbench.process.worker import python_path

if TYPE_CHECKING:
    from subprocess import Popen

_CHILD = (
    "import sys; from gdnbench.process.worker import die_with_parent; die_with_parent(); "
    "from gdnbench.cli.app import main; sys.exit(main())"
)
"""The command line, killed with the process that started it: a run that nobody waits for would keep its GPU."""

_HEED_S = 0.2
"""Seconds after which a Ctrl-C is noticed that came just before the wait for a run's end began."""


_LAST_S = 15.0
"""Seconds that a second Ctrl-C leaves the runs: one elsewhere ends its job there."""


def gdnbench_command(arguments: Iterable[str]) -> tuple[str, ...]:
    """What starts this gdnbench with a command line; the verb comes first."""
    return (*PYTHON, "-c", _CHILD, *arguments)


@dataclass(frozen=True)
class RunJob:
    """One of several runs.

    Attributes:
        name: what to call it: `GPU 0`, `part 2`.
        command: what to start.
        cores: the logical cores that it may use; None for all.
    """

    name: str
    command: tuple[str, ...]
    cores: Cores | None = None


@dataclass(frozen=True)
class RunOutcome:
    """How one of several runs ended.

    Attributes:
        name: the run's.
        code: its exit code; CRASHED where a signal ended it.
        reason: how it ended, in words; empty where it said so itself.
        folder: of its run; None where it wrote none.
    """

    name: str
    code: ExitCode
    reason: str
    folder: Path | None


def run_at_once(jobs: Sequence[RunJob], results: Path, tell: Callable[[str, str], None]) -> list[RunOutcome]:
    """Runs all at once, and returns when all have ended. Ctrl-C reaches each, which ends as it would by itself.

    So does a second one, after which those that have not ended soon are killed.

    Args:
        jobs: the runs.
        results: the folder that holds runs.
        tell: called with a run's name and each line that it says on stderr, from a thread of that run's.
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
    """The exit code of all: the gravest, with what the joint table says. A single run's A/A noise is not the answer's.

    Args:
        outcomes: of all runs.
        joint: what they tell together.
    """
    return gravest_code([joint, *(each.code for each in outcomes if each.code is not ExitCode.NOISY)])


class _Running:
    """A run under way: its process, what it prints on stdout, and a thread that passes its stderr on.

    The thread also waits for its end: Ctrl-C is raised in the main thread alone, and one that came between the system's
    answer and its being noted would lose the exit code.
    """

    def __init__(self, job: RunJob, tell: Callable[[str, str], None]) -> None:
        from subprocess import PIPE

        self.job = job
        self._tell = tell
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.process: Popen[bytes] = start(
            job.command, environment={"PYTHONPATH": python_path()}, stdout=self._printed, stderr=PIPE
        )
        if job.cores is not None:  # of the one thread that it has by now: whatever it starts inherits them
            os.sched_setaffinity(self.process.pid, job.cores)
        self.ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self.process.stderr
        try:
            for line in self.process.stderr:
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._tell(self.job.name, text)
        finally:
            self.process.wait()
            self.ended.set()

    def interrupt(self) -> None:
        """Ctrl-C, to this process alone: it stops its own workers."""
        self.process.send_signal(signal.SIGINT)

    def outcome(self, results: Path) -> RunOutcome:
        """How it ended, once it has."""
        code, folder = self.process.returncode, self._folder(results)
        known = next((each for each in ExitCode if each == code), None)
        reason = f"its run ended with {describe_exit(code)}" if known is None else ""
        return RunOutcome(self.job.name, ExitCode.CRASHED if known is None else known, reason, folder)

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


def _interrupt(running: Sequence[_Running]) -> None:
    """Ctrl-C to all, and again if the user does not wait for their end.

    Raises:
        KeyboardInterrupt: if they are not waited for.
    """
    for each in running:
        each.interrupt()
    try:
        _wait(running)
    except KeyboardInterrupt:
        for each in running:
            each.interrupt()
        deadline_s = time.monotonic() + _LAST_S
        for each in running:
            each.ended.wait(max(0.0, deadline_s - time.monotonic()))
        raise


def _wait(running: Sequence[_Running]) -> None:
    """Until all have ended.

    Raises:
        KeyboardInterrupt: at Ctrl-C.
    """
    for each in running:
        while not each.ended.wait(_HEED_S):
            pass
