"""The far end of a job: runs its command, tells of it, and stops it when nobody is there any more.

The worker's stdin is the way to stop it: a line `stop`, or its end, means Ctrl-C. Whatever else arrives there says that
someone is still listening. What is finished by then is kept as it is after Ctrl-C in a terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Literal

from gdnbench.catalog.catalog import KERNELS_VARIABLE
from gdnbench.errors import ExitCode, GdnbenchError, GpuNotFoundError
from gdnbench.machine.gpus import is_model, list_gpus, select_cards, select_gpu
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, CommandOrigin
from gdnbench.process.channel import decode
from gdnbench.process.command import PYTHON, kill, start
from gdnbench.process.events import PROGRESS, VARIABLE, CommandEvent, JobEnded, RunOpened, TextPrinted, write_event
from gdnbench.process.worker import python_path
from gdnbench.remote.job import RemoteJob, held, read_job, run_id, take_up
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info

_POLL_S = 0.5
_CHUNK = 1 << 16
_DROPPED = (KERNELS_VARIABLE, "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
"""Of this machine's own settings, those that the job decides."""

_WRONG_GPU = "correct the GPUs of the target in gdnbench.toml, or name another with --on"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def work(path: Path, out: Path, events: int, stops: int | None) -> ExitCode:
    """Does a job; gives the exit code of its command, which the last event has, too.

    Args:
        path: the job's file.
        out: the folder for what the command writes; it is its working folder.
        events: the descriptor to tell on.
        stops: the descriptor that says when to stop; None where none does, and only a signal stops it.

    Raises:
        UsageError: if the file is no job.
    """
    job = read_job(path)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    teller = _Teller(events)
    try:
        with held(out.parent):
            words = _words(job, out)
            _check_gpu(job)
            code = _Command(job, words, out, teller, stops).run()
    except GdnbenchError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        teller.tell(TextPrinted("stderr", f"error: {error.message}{hint}\n"))
        code = error.exit_code
    teller.tell(JobEnded(code, left_in(out)))
    return code


def left_in(out: Path) -> list[str]:
    """What a command left in its folder: runs, finished or not, and files beside them."""
    found = []
    for path in sorted(out.iterdir()):
        found += [f"{path.name}/{each.name}" for each in sorted(path.iterdir())] if path.is_dir() else [path.name]
    return found


def _words(job: RemoteJob, out: Path) -> list[str]:
    """The command's words; a run that is whole already is only shown."""
    if not job.resume:
        return job.words
    run = take_up(out, job.resume)
    words = [run_id(run) if word == job.resume else word for word in job.words]
    if not read_info(run).complete:
        return words
    return ["show", run_id(run), *(word for word in words if word in {"--json", "--csv"})]


def _check_gpu(job: RemoteJob) -> None:
    """Refuses a GPU that is not of the models asked for.

    Raises:
        GpuNotFoundError: if so, or there is none. `doctor` finds that out by itself.
    """
    if not job.models or job.gpu.strip().lower() == CPU or (job.verb == "doctor" and not job.calibrates):
        return
    wanted = f"{job.target or 'this machine'} is to have a GPU of model {' or '.join(job.models)}"
    gpus = list_gpus()
    try:
        cards = select_cards(job.gpu, gpus)
        chosen = cards[0] if cards else select_gpu(job.gpu, gpus)
    except GpuNotFoundError as error:
        raise GpuNotFoundError(f"{wanted}. {error.message}", _WRONG_GPU) from error
    if chosen is None or not any(is_model(model, chosen) for model in job.models):
        there = f"an {chosen.name} would be taken" if chosen else "it has no NVIDIA GPU that CUDA may use"
        raise GpuNotFoundError(f"{wanted}, and {there}.", _WRONG_GPU)


class _Teller:
    """Writes events; once nobody reads them, it says so and goes on without."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_heard = True

    def tell(self, event: CommandEvent) -> None:
        try:
            if self.is_heard:
                write_event(self._descriptor, event)
        except OSError:
            self.is_heard = False


class _Command:
    """The command under way."""

    def __init__(self, job: RemoteJob, words: list[str], out: Path, teller: _Teller, stops: int | None) -> None:
        self._job = job
        self._words = words
        self._out = out
        self._teller = teller
        self._stops = stops
        self._patience_s = 0.0 if stops is None else job.patience_s
        self._heard_s = time.monotonic()
        self._opened = {run.name for run in _unfinished(out)} if not job.resume else set()
        self._rest = b""
        self._was_heard = True
        self._is_stopped = False

    def run(self) -> ExitCode:
        """Runs it to its end; gives its exit code."""
        read_end, write_end = os.pipe()
        # What ran us in a shell's background has it ignored, and the command would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in _DROPPED:
            os.environ.pop(name, None)
        os.environ.update(self._job.environment)
        try:
            process = start(
                [*PYTHON, "-c", _CHILD.format(out=str(self._out), worker=os.getpid()), *self._words],
                environment={**self._environment, VARIABLE: str(write_end)},
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[write_end],
            )
        finally:
            os.close(write_end)
        for number in _STOPPING:
            signal.signal(number, lambda *_: self._stop(process))
        try:
            self._relay(process, read_end)
            code = process.wait()
        finally:
            kill(process)
            os.close(read_end)
        known = next((each for each in ExitCode if each == code), None)
        return ExitCode.CRASHED if known is None else known

    @property
    def _environment(self) -> dict[str, str]:
        job = self._job
        git: dict[str, Any] = dict(job.git)
        here = CommandOrigin(job.target, tuple(job.roots), git, job.results, job.profiles, job.inputs)
        width = {"COLUMNS": str(job.width)} if job.width else {}
        colour = {"FORCE_COLOR": "1"} if job.colour else {}
        return {"PYTHONUTF8": "1", "PYTHONPATH": python_path(), **width, **colour, **here.variables}

    def _relay(self, process: Popen[bytes], events: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        streams: dict[int, Literal["stdout", "stderr"] | None] = {
            process.stdout.fileno(): "stdout",
            process.stderr.fileno(): "stderr",
            events: None,
        }
        texts: dict[int, bytes] = dict.fromkeys(streams, b"")
        while streams:
            listened = [*streams, *([] if self._stops is None else [self._stops])]
            ready, _, _ = select.select(listened, [], [], _POLL_S)
            self._notice_opened()
            if self._stops in ready:
                self._heed(process)
            self._notice_silence(process)
            for descriptor in set(ready) & set(streams):
                chunk = os.read(descriptor, _CHUNK)
                texts[descriptor] = self._pass_on(streams[descriptor], texts[descriptor] + chunk, at_end=not chunk)
                if not chunk:
                    del streams[descriptor]
            if not ready and process.poll() is not None:
                return  # a child of the command keeps its streams open

    def _pass_on(self, stream: Literal["stdout", "stderr"] | None, content: bytes, *, at_end: bool) -> bytes:
        """Tells of whole lines; gives the rest."""
        lines, newline, rest = content.rpartition(b"\n")
        if at_end:
            lines, newline, rest = content, b"", b""
        if stream and lines + newline:
            self._teller.tell(TextPrinted(stream, (lines + newline).decode(errors="replace")))
        elif lines:
            self._tell_progress(lines.split(b"\n"))
        return rest

    def _tell_progress(self, lines: list[bytes]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                self._teller.tell(decode(line, PROGRESS))

    def _notice_opened(self) -> None:
        for run in _unfinished(self._out):
            if run.name not in self._opened:
                self._opened.add(run.name)
                self._teller.tell(RunOpened(run_id(run)))

    def _heed(self, process: Popen[bytes]) -> None:
        assert self._stops is not None
        content = os.read(self._stops, _CHUNK)
        self._heard_s = time.monotonic()
        *lines, self._rest = (self._rest + content).split(b"\n")
        if not content:
            self._stops = None
        if b"stop" in lines or (not content and not self._is_stopped):
            self._stop(process)

    def _notice_silence(self, process: Popen[bytes]) -> None:
        """Who asked may be gone without a word, as where a network fails."""
        is_silent = 0 < self._patience_s < time.monotonic() - self._heard_s
        was_heard, self._was_heard = self._was_heard, self._teller.is_heard and not is_silent
        if was_heard and not self._was_heard and not self._is_stopped:
            self._stop(process)

    def _stop(self, process: Popen[bytes]) -> None:
        """Ctrl-C, to the command alone: it stops its own workers. A second one would keep it from writing what it has.

        That nobody listens any more is no second one.
        """
        self._is_stopped = True
        if process.poll() is None:
            process.send_signal(signal.SIGINT)


_CHILD = (
    "import os, signal, sys; from gdnbench.process.worker import die_with_parent; die_with_parent(); "
    "os.getppid() == {worker} or sys.exit(1); "  # it may have died before
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.chdir({out!r}); "
    "sys.argv[0] = 'gdnbench'; from gdnbench.__main__ import main; sys.exit(main())"
)
"""The command line in the job's folder, killed with the worker: a command that nobody relays would keep its GPU.

A queue that ends a job sends SIGTERM to all of its processes; the worker's alone is heeded, so that the command is told
once.
"""


def _unfinished(out: Path) -> list[Path]:
    return [run for run in list_runs(out / RESULTS, stopped=True) if run.name.startswith(".")]
