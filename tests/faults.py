"""Runs gdnbench as a user does, on the kernels in `adversarial/`, in a process of its own unless told otherwise."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from forked_workers import FORKING

from gdnbench.model.status import CLOCKS
from gdnbench.verbs.app import main

REPOSITORY = Path(__file__).resolve().parents[1]
ADVERSARIAL = REPOSITORY / "tests" / "adversarial"
LIMIT_S = 120
LIMIT_IN_TURN_S = 800  # other tests of the GPU may come first

CPU = ("--gpu", "cpu", "--baseline", "decode-reference")
# A margin so wide that no chance of a busy machine tells the baseline apart from itself, which is exit code 4.
SHORT = ("--rounds", "3", "--samples", "5", "--step-limit", "4", "--margin", "0.9")
ROUNDS = 12
LONG = ("--rounds", str(ROUNDS), *SHORT[2:])  # with test-slow, more than a second of measuring


@dataclass(frozen=True)
class Gdnbench:
    """The command line with its own kernels, results folder and, unless it takes turns, its own lock.

    Attributes:
        home: an empty folder, for results and whatever else.
        roots: folders of kernels beside the bundled ones.
        takes_turns: on the GPU, with whatever else measures or profiles there.
        in_process: whether commands run in the process of the tests, which saves each the imports of a start, up to a
            second; the workers that they start are processes all the same. Not for commands that are killed, or stopped
            by a signal.
        forks: whether commands that are processes of their own fork their workers as those in this one do.
    """

    home: Path
    roots: tuple[Path, ...] = ()
    takes_turns: bool = False
    in_process: bool = False
    forks: bool = False

    @property
    def limit_s(self) -> float:
        """How long a command may take, with the wait for its turn."""
        return LIMIT_IN_TURN_S if self.takes_turns else LIMIT_S

    @property
    def results(self) -> Path:
        return self.home / "results"

    @property
    def environment(self) -> dict[str, str]:
        (self.home / "tmp").mkdir(parents=True, exist_ok=True)
        # TMPDIR holds the lock that makes runs wait for each other.
        own_lock = {} if self.takes_turns else {"TMPDIR": str(self.home / "tmp")}
        return {
            **os.environ,
            **own_lock,
            "GDNBENCH_KERNELS": os.pathsep.join(map(str, self.roots)),
            "PYTHONPATH": python_path(REPOSITORY, ADVERSARIAL, *(FORKING if self.forks else ())),
            "COLUMNS": "500",  # messages in one line
            "OMP_NUM_THREADS": "1",  # threads that wait for each other on a busy machine make honest steps time out
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command; the caller waits for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "gdnbench", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str) -> Done:
        """Runs a command to its end."""
        if self.in_process:
            return answer(*arguments, **self.environment)
        return finish(self.start(*arguments), self.limit_s)

    def start_run(self, kernels: str, *options: str) -> subprocess.Popen[str]:
        """Starts `gdnbench run` with JSON on stdout."""
        return self.start(*self._run_words(kernels, *options))

    def run(self, kernels: str, *options: str) -> Done:
        """`gdnbench run` with JSON on stdout, to its end."""
        return self(*self._run_words(kernels, *options))

    def _run_words(self, kernels: str, *options: str) -> tuple[str, ...]:
        return ("run", "--kernel", kernels, "--out", str(self.results), "--json", *options)

    def resume(self, run_id: str) -> Done:
        """`gdnbench run --resume`, likewise."""
        return self("run", "--resume", run_id, "--out", str(self.results), "-q", "--json")

    def only_run(self) -> Path:
        """The results folder's one entry, hidden or not."""
        [folder] = self.results.iterdir()
        return folder


def answer(*arguments: object, folder: Path = Path(), encoding: str = "utf-8", **environment: str) -> Done:
    """Runs a command in this process, which saves it the imports of a start: half a second.

    Args:
        arguments: of `gdnbench`.
        folder: where it runs.
        encoding: of its standard output.
        environment: variables on top of this process's.
    """
    out, err = io.TextIOWrapper(io.BytesIO(), encoding), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(tempfile, "tempdir", None),  # Python asks for TMPDIR only once
        mock.patch.object(sys, "argv", ["gdnbench", *map(str, arguments)]),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main()
    return Done(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def python_path(*first: Path) -> str:
    """PYTHONPATH with these folders before its own, all absolute: on some machines it is where libraries are."""
    own = [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return os.pathsep.join(str(folder.resolve()) for folder in (*first, *own))


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def info(self) -> dict[str, Any]:
        """The run's description."""
        return self.document["run"]

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The run's rows by label, of its own timer."""
        rows = self.document["measurements"]
        return {row["label"]: row for row in rows if row.get("timer") not in CLOCKS}


def finish(process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> Done:
    """Waits for a command; one that outlasts every patience is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=limit_s)
    finally:
        process.kill()
    return Done(process.returncode, out, err)


def assert_whole(done: Done, rounds: int = ROUNDS) -> None:
    """The run ended well, and every case has every round."""
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {rounds}


def resume_whole(bench: Gdnbench) -> Done:
    """Takes up the one run there is; it must end whole, in the one folder, without a journal."""
    folder = bench.only_run()
    done = bench.resume(folder.name.removeprefix(".").removesuffix(".partial"))
    assert_whole(done)
    assert bench.only_run().name == done.info["run_id"]
    assert not (bench.only_run() / "journal.jsonl").exists()
    return done


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
    """Polls until the condition holds; returns what it gave."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {limit_s:.0f} s in vain for {what}")


def measured(results: Path, number: int = 1) -> Callable[[], bool]:
    """Whether a round of some case of the hidden run in a results folder is in its journal."""
    wanted = f'"kind":"Sampled","round":{number},'

    def is_there() -> bool:
        return any(wanted in journal.read_text() for journal in results.glob(".*.partial/journal.jsonl"))

    return is_there


def workers_of(parent: int, phase: str = "") -> list[int]:
    """The worker processes that a process has started, those of one phase if it is named."""
    found = []
    for thread in Path(f"/proc/{parent}/task").glob("*"):
        with contextlib.suppress(OSError):
            children = map(int, (thread / "children").read_text().split())
            found += [child for child in children if f"/{phase}" in _command_line(child)]
    return found


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def statuses(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Each row's status by label."""
    return {label: row["status"] for label, row in rows.items()}


def failures(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The rows that have no time to show."""
    return (row for row in rows.values() if row["status"] != "ok")
