"""The target's side of a job: runs its command, sends events, and stops the command when the client is gone.

A line `stop` on the worker's stdin, or its end, means Ctrl-C; any other line says that the client is connected. What is
finished by then is kept as after Ctrl-C in a terminal.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from gdnbench.catalog.catalog import KERNELS_VARIABLE
from gdnbench.errors import ExitCode, GdnbenchError, GpuNotFoundError
from gdnbench.machine.gpus import is_model, list_gpus, select_cards, select_gpu
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, CommandOrigin
from gdnbench.process.child import Child, exit_code_of_child
from gdnbench.process.events import EventWriter, JobEnded, RunOpened, TextPrinted
from gdnbench.remote.job import RemoteJob, locked, read_job, run_id, take_up
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info

_CHUNK = 1 << 16
_DROPPED = (KERNELS_VARIABLE, "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
"""Of this machine's own settings, those that the job decides."""

_WRONG_GPU = "correct the GPUs of the target in gdnbench.toml, or name another with --on"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def work(path: Path, out: Path, events: int, stops: int) -> ExitCode:
    """Does a job in `out`, with descriptors `events` and `stops`; returns the exit code. UsageError if no job."""
    job = read_job(path)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    writer = EventWriter(events)
    try:
        with locked(out.parent):
            words = _words(job, out)
            _check_gpu(job)
            code = _Command(job, words, out, writer, stops).run()
    except GdnbenchError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        writer(TextPrinted("stderr", f"error: {error.message}{hint}\n"))
        code = error.exit_code
    writer(JobEnded(code, left_in(out)))
    return code


def left_in(out: Path) -> list[str]:
    """Returns what a command left in its folder: runs, finished or not, and files beside them."""
    left = []
    for path in sorted(out.iterdir()):
        left += [f"{path.name}/{each.name}" for each in sorted(path.iterdir())] if path.is_dir() else [path.name]
    return left


def _words(job: RemoteJob, out: Path) -> list[str]:
    """Returns the command's words; a run that is whole already is only shown."""
    if not job.resume:
        return job.words
    run = take_up(out, job.resume)
    words = [run_id(run) if word == job.resume else word for word in job.words]
    if not read_info(run).complete:
        return words
    return ["show", run_id(run), *(word for word in words if word in {"--json", "--csv"})]


def _check_gpu(job: RemoteJob) -> None:
    """Raises GpuNotFoundError for a GPU of another model, or none; `doctor` finds that out by itself."""
    if not job.models or job.gpu.strip().lower() == CPU or (job.verb == "doctor" and not job.measures):
        return
    wanted = f"{job.target or 'this machine'} is to have a GPU of model {' or '.join(job.models)}"
    gpus = list_gpus()
    try:
        cards = select_cards(job.gpu, gpus)
        chosen = cards[0] if cards else select_gpu(job.gpu, gpus)
    except GpuNotFoundError as error:
        raise GpuNotFoundError(f"{wanted}. {error.message}", _WRONG_GPU) from error
    if chosen is None or not any(is_model(model, chosen) for model in job.models):
        reason = f"an {chosen.name} would be taken" if chosen else "it has no NVIDIA GPU that CUDA may use"
        raise GpuNotFoundError(f"{wanted}, and {reason}.", _WRONG_GPU)


class _Command:
    def __init__(self, job: RemoteJob, words: list[str], out: Path, events: EventWriter, stops: int) -> None:
        self._job = job
        self._words = words
        self._out = out
        self._events = events
        self._stops: int | None = stops  # None at its end
        self._received_s = time.monotonic()
        self._opened = {run.name for run in _unfinished(out)} if not job.resume else set()
        self._unread = b""
        self._had_client = True

    def run(self) -> ExitCode:
        """Runs it to its end; returns its exit code."""
        # What ran us in a shell's background has it ignored, and the command would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in _DROPPED:
            os.environ.pop(name, None)
        os.environ.update(self._job.environment)
        # A queue that ends a job sends SIGTERM to all of its processes: this one passes it on once.
        child = Child(
            self._words,
            self._events,
            environment=self._environment,
            folder=self._out,
            ignores_sigterm=True,
            sends_events=True,
        )
        for number in _STOPPING:
            signal.signal(number, lambda *_: child.interrupt(again=True))
        try:
            return exit_code_of_child(child.follow(lambda: self._look(child)))
        finally:
            child.close()

    @property
    def _environment(self) -> dict[str, str]:
        job = self._job
        git: dict[str, Any] = dict(job.git)
        origin = CommandOrigin(job.target, tuple(job.roots), git, job.results, job.profiles, job.inputs, job.project)
        width = {"COLUMNS": str(job.width)} if job.width else {}
        colour = {"FORCE_COLOR": "1"} if job.colour else {}
        return {"PYTHONUTF8": "1", **width, **colour, **origin.variables}

    def _look(self, child: Child) -> None:
        """Reports new runs; stops the command at a request, or once, not as a second Ctrl-C, if the client is gone."""
        for run in _unfinished(self._out):
            if run.name not in self._opened:
                self._opened.add(run.name)
                self._events(RunOpened(run_id(run)))
        if self._stops is not None and select.select([self._stops], [], [], 0)[0]:
            content = os.read(self._stops, _CHUNK)
            self._received_s = time.monotonic()
            *lines, self._unread = (self._unread + content).split(b"\n")
            if not content:
                self._stops = None
                child.interrupt()
            if b"stop" in lines:
                child.interrupt(again=True)
        is_silent = 0 < self._job.patience_s < time.monotonic() - self._received_s
        had_client, self._had_client = self._had_client, self._events.is_read and not is_silent
        if had_client and not self._had_client:
            child.interrupt()


def _unfinished(out: Path) -> list[Path]:
    return [run for run in list_runs(out / RESULTS, stopped=True) if run.name.startswith(".")]
