"""Runs a command on the target that has its GPU: sends the job, relays its worker's events, downloads its output."""

from __future__ import annotations

import io
import os
import secrets
import select
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from types import FrameType

from gdnbench.errors import ConnectionLostError, GdnbenchError, GpuNotFoundError, MachineError, UsageError
from gdnbench.machine import gpus
from gdnbench.machine.gpus import names_model
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, out_option
from gdnbench.process import events
from gdnbench.process.channel import decode
from gdnbench.process.command import GRACE_S, kill
from gdnbench.remote.environment import Prepared, prepare, put_files
from gdnbench.remote.host import Host, last_line, shell
from gdnbench.remote.job import INPUTS, JOB, OUT, RemoteJob, run_id
from gdnbench.remote.targets import HOW_TO_ADD, NamedTarget, format_targets, load_targets, targets_with
from gdnbench.remote.transfer import ExpectedOutput, OriginFolders, fetch, files_under
from gdnbench.render.console import without_commands
from gdnbench.verb_table import VERBS

SILENCE_TIMEOUT_S = 120.0
"""Seconds without a line from here after which a worker there ends its job."""

MOST_TEXT = 256 << 20
"""Bytes of one line, and characters of all that a command prints: a table of every case there is has a tenth."""

_BEAT_S = 10.0
_POLL_S = 0.2
_END_S = 10.0
_CHUNK = 1 << 16

_WORK = """
cd "$1" || exit 1
case "$3" in '~/'*) python="$HOME/${3#??}";; *) python="$3";; esac
export PYTHONPATH="$2${PYTHONPATH:+:$PYTHONPATH}" PYTHONUTF8=1
exec "$python" -P -m gdnbench worker %s --out %s
""" % (JOB, OUT)  # noqa: UP031 - braces are the shell's


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended: exit code, paths of what it left in its folder, and what it wrote to stdout."""

    code: int
    folders: tuple[str, ...]
    printed: str


def run_job(ready: Prepared, folder: str, observer: events.Observer, run_opened: Callable[[str], None]) -> JobOutcome:
    """Runs the job that lies in `folder`, an absolute path, to its end; Ctrl-C stops it, and keeps what is finished.

    `observer` gets its progress, `run_opened` the ids of the runs that it begins. Raises ConnectionLostError if the
    host is no longer reached, MachineError if the worker cannot be started, KeyboardInterrupt at a second Ctrl-C.
    """
    argv = shell(_WORK, folder, ready.package, ready.python)
    with tempfile.TemporaryFile() as errors:
        process = ready.host.start(argv, stdin=PIPE, stdout=PIPE, stderr=errors)
        relay = _Relay(process, observer, run_opened)
        try:
            ended = relay.run()
            if ended:
                with suppress(TimeoutExpired):
                    process.wait(_END_S)
        finally:
            kill(process)
        if ended is None:
            errors.seek(0)
            reason = last_line(errors.read().decode(errors="replace"))
            if relay.has_received:
                raise ConnectionLostError(f"the connection to {ready.host.name} was cut: {reason}")
            hint = f"is there an interpreter at {ready.python}, with gdnbench's requirements?"
            raise MachineError(f"gdnbench does not start on {ready.host.name}: {reason}", hint)
    return JobOutcome(ended.code, tuple(ended.folders), relay.printed.getvalue())


@dataclass
class _Relay:
    process: Popen[bytes]
    observer: events.Observer
    run_opened: Callable[[str], None]
    stops: int = 0
    sent_stops: int = 0
    beat_s: float = field(default_factory=time.monotonic)
    printed: io.StringIO = field(default_factory=io.StringIO)
    has_received: bool = False

    def run(self) -> events.JobEnded | None:
        """Returns the last event, or None if it never arrives."""
        previous = signal.signal(signal.SIGINT, self._count_stop)
        try:
            return self._follow()
        finally:
            signal.signal(signal.SIGINT, previous)

    def _count_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops += 1

    def _follow(self) -> events.JobEnded | None:
        assert self.process.stdout is not None
        output, unread = self.process.stdout.fileno(), b""
        while True:
            self._pass_on_stops()
            ready, _, _ = select.select([output], [], [], _POLL_S)
            if not ready:
                if self.process.poll() is not None:
                    return None
                continue
            chunk = os.read(output, _CHUNK)
            if not chunk:
                with suppress(TimeoutExpired):
                    self.process.wait(GRACE_S)
                return None
            *lines, unread = (unread + chunk).split(b"\n")
            _check_size(len(unread))
            for line in lines:
                ended = self._take(line)
                if ended:
                    return ended

    def _pass_on_stops(self) -> None:
        if self.stops > self.sent_stops:
            if self.sent_stops:
                raise KeyboardInterrupt
            self.sent_stops = self.stops
            self.observer(events.NoteMade("stopping; what is finished is copied back (Ctrl-C again leaves it there)"))
            self._send(b"stop\n")
        elif time.monotonic() - self.beat_s > _BEAT_S:
            self._send(b"\n")

    def _send(self, line: bytes) -> None:
        self.beat_s = time.monotonic()
        assert self.process.stdin is not None
        with suppress(OSError):  # that it is gone shows on its stdout
            self.process.stdin.write(line)

    def _take(self, line: bytes) -> events.JobEnded | None:
        """Handles one line; other lines than events are a login shell's greeting."""
        try:
            event: events.CommandEvent = decode(line, events.EVENTS)
        except ValueError:
            return None
        self.has_received = True
        match event:
            case events.JobEnded():
                return event
            case events.RunOpened(run_id):
                self.run_opened(run_id)
            case events.TextPrinted("stdout", text):
                self.printed.write(text)
                _check_size(self.printed.tell())
            case events.TextPrinted(_, text):
                sys.stderr.write(without_commands(text))
                sys.stderr.flush()
            case _:
                self.observer(event)
        return None


def _check_size(size: int) -> None:
    if size > MOST_TEXT:
        raise UsageError(f"the target prints more than {MOST_TEXT >> 20} MiB, which is refused", "is it yours?")


@dataclass
class Forwarded:
    """A command for a target: the job without what only the target knows, and where its output belongs here.

    `unfinished` is the folder of the run that it resumes, if that is here; `inputs` are the files of captured inputs
    that it needs; `kernels` are those of `ExpectedOutput`; `roots` are those of `prepare`. `runs` has the ids of the
    runs that it began, once they are known: several on several cards; `leftover` is the folder there with what was not
    downloaded, or empty.
    """

    named: NamedTarget
    job: RemoteJob
    homes: OriginFolders
    unfinished: Path | None = None
    inputs: Sequence[Path] = ()
    kernels: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    runs: list[str] = field(default_factory=list, init=False)
    leftover: str = field(default="", init=False)

    def execute(self, host: Host, observer: events.Observer) -> JobOutcome:
        """Runs the command on the target's connected host, and downloads what it wrote.

        Raises GdnbenchError if the target cannot be made ready, the connection is cut, or what comes back cannot be
        stored, with a hint how to get what is finished there; KeyboardInterrupt at a second Ctrl-C, or one before the
        command began.
        """
        if self.job.resume:
            self._note_run(self.job.resume)
        ready = prepare(self.named, host, observer, self.roots)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        jobs = f"{ready.workdir}/jobs"
        self._send(ready, jobs, name)
        self.leftover = folder = f"{jobs}/{name}"
        try:
            outcome = run_job(ready, folder, observer, self._note_run)
            # Runs are known by their folders, too: one may have been resumed by the start of its id.
            parts = [path.partition("/") for path in outcome.folders]
            self.runs = [run_id(Path(run)) for parent, _, run in parts if parent == RESULTS.name] or self.runs
            if outcome.folders:
                observer(events.StepChanged(f"fetching from {host.name}"))
                expected = ExpectedOutput(self.job.verb, self.kernels, self.job.measures)
                fetch(host, f"{folder}/{OUT}", self.homes, expected)
        except GdnbenchError as error:
            if isinstance(error, ConnectionLostError) or self.runs:  # one of a worker that never began keeps its hint
                raise type(error)(error.message, self.recovery_hint) from error
            raise
        host.run(["rm", "-rf", "--", folder])
        self.leftover = ""
        return outcome

    def _send(self, ready: Prepared, jobs: str, name: str) -> None:
        environment = dict(self.named.target.environment)
        job = replace(self.job, roots=list(ready.roots), environment=environment, patience_s=SILENCE_TIMEOUT_S)
        files = {f"{INPUTS}/{file.name}": file for file in self.inputs}
        if self.unfinished:
            there = f"{OUT}/{RESULTS}/{self.unfinished.name}"
            files |= {f"{there}/{name}": path for name, path in files_under(self.unfinished).items()}
        with tempfile.TemporaryDirectory(prefix="gdnbench-") as folder:
            path = Path(folder) / JOB
            path.write_text(job.to_json(), encoding="utf-8")
            put_files(ready.host, jobs, name, {JOB: path, **files})

    def _note_run(self, run: str) -> None:
        if run not in self.runs:
            self.runs.append(run)

    @property
    def recovery_hint(self) -> str:
        """How to get what is finished there and not here."""
        if not self.runs or not VERBS[self.job.verb].resumes:
            return f"run it again; what it left there is in {self.leftover}"
        own = ["--on", self.named.name, *out_option(self.homes.results)]
        own += ["--inputs", self.job.inputs] if self.job.inputs else []
        commands = [shlex.join(["gdnbench", "run", "--resume", run, *own]) for run in self.runs]
        return f"what is finished stays there; copy it back by: {', '.join(commands)}"


def choose_target(gpu: str) -> NamedTarget | None:
    """The target for `--gpu` without `--on`, None to run here; GpuNotFoundError, UsageError unless it is one's own."""
    if not names_model(gpu):
        return None
    try:
        gpus.select_gpu(gpu, gpus.list_gpus())
    except GpuNotFoundError as error:
        having = targets_with(gpu)
        own = [each for each in having if each.is_own]
        if len(own) == 1:
            return own[0]
        if having:
            whose = f"{len(own)} targets" if own else f"targets of {having[0].file}, which may not be yours,"
            message = f"{whose} have a GPU {gpu!r}: {format_targets(own or having)}"
            raise UsageError(message, f"name one: --on {(own or having)[0].name}") from error
        others = load_targets()
        reason = f"No target has one: {format_targets(others.values()) if others else 'none is known'}."
        raise GpuNotFoundError(f"{error.message} {reason}", f"{HOW_TO_ADD}; {error.hint}") from error
    return None


def requested_models(named: NamedTarget, gpu: str) -> list[str]:
    """Returns the models of which the GPU there must be: the one that `--gpu` names, else those that the target has."""
    if gpu.strip().lower() == CPU:
        return []
    return [gpu] if names_model(gpu) else list(named.target.gpus)
