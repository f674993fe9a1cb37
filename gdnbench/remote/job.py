"""A job: one command for another machine as a file, and the target's side of it, which runs the command.

A line `stop` on the worker's stdin, or its end, means Ctrl-C; any other line says that the client is connected. What is
finished by then is kept as after Ctrl-C in a terminal.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from gdnbench.catalog.catalog import KERNELS_VARIABLE
from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import ExitCode, GdnbenchError, GpuNotFoundError, UnknownNameError, UsageError
from gdnbench.machine.gpus import is_model, list_gpus, select_cards, select_gpu
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, CommandOrigin
from gdnbench.process.child import Child, exit_code_of_child
from gdnbench.process.events import EventWriter, JobEnded, RunOpened, TextPrinted
from gdnbench.store.files import JOURNAL, PARTIAL
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info
from gdnbench.store.schema import GitDocument, TextLine
from gdnbench.verb_table import GPU_VERBS

SCHEMA: Literal[1] = 1
JOB = "job.json"
OUT = "out"
"""The folder beside `job.json` that the command runs in."""
INPUTS = "inputs"
"""The folder beside `job.json` with the captured inputs that the command needs."""

MOST_BYTES = 1 << 24
"""Of a job's file, which is a command line."""

VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """One command for another machine, as the file has it.

    `words` are the command line behind `gdnbench`, the verb first. `roots` are the folders of kernels as they are
    called there, of a project all but the first with `project`. `gpu` is as `--gpu` has it, and `models` are the GPU
    models of which the chosen one must be, empty for any. `resume` is the stopped run that is continued. `results`,
    `profiles` and `inputs` are what the folders of runs, of profiles and of captured inputs are called here. `width` is
    the terminal's in columns. Of all variables only `environment` is sent. `git` is the checkout that the sources come
    from. The worker stops after `patience_s` seconds without a line on its stdin, 0 for no limit.
    """

    words: Annotated[list[str], Meta(min_length=1)]
    roots: list[str] = field(default_factory=list)
    gpu: str = "auto"
    models: list[str] = field(default_factory=list)
    target: TextLine = ""
    resume: str = ""
    results: str = "results"
    profiles: str = "profiles"
    inputs: str = ""
    project: bool = False
    width: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    colour: bool = False
    environment: dict[VariableName, str] = field(default_factory=dict)
    git: GitDocument = field(default_factory=GitDocument)
    patience_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    schema: Literal[1] = SCHEMA

    @property
    def verb(self) -> str:
        """The verb of the command."""
        return self.words[0]

    @property
    def measures(self) -> bool:
        """Whether it is a `doctor` that measures: a calibration, or what the GPU costs."""
        return self.verb == "doctor" and not {"--calibrate", "--latency"}.isdisjoint(self.words)

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_job(path: Path) -> RemoteJob:
    """Reads a job; raises UsageError if there is none, a field does not fit, or its verb cannot be a job."""
    try:
        text = path.read_bytes()
        schema = decode_json(text, dict[str, Any]).get("schema")
        if schema != SCHEMA:
            raise UsageError(f"{path} is of schema {schema}; this gdnbench knows {SCHEMA}", "send it anew")
        job = decode_json(text, RemoteJob)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "name a job's file") from error
    except SchemaError as error:
        raise UsageError(f"{path} is not a job: {error}", "send it anew") from error
    if job.verb not in GPU_VERBS:
        raise UsageError(f"{path}: {job.verb!r} is not a job", f"those are {', '.join(GPU_VERBS)}")
    return job


def forwarded_args(
    words: Sequence[str], spellings: Mapping[str, tuple[str, bool]], left_out: Collection[str]
) -> list[str]:
    """The words that were typed behind a verb, without those of some of its parameters.

    `spellings` has an option's parameter, and whether a value follows, by every way to write it.
    """
    sent: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*sent, word, *rest]
        is_long = word.startswith("--")
        spelling = word.partition("=")[0] if is_long else word[:2]
        name, takes_value = spellings.get(spelling, ("", False))
        own, is_whole = [word], word == spelling
        if name and takes_value and is_whole and rest:
            own.append(rest.pop(0))
        if not is_long and not is_whole and not takes_value:  # several flags in one word
            name = ""
        sent += own if name not in left_out else []
    return sent


_LOCK_TIMEOUT_S = 60.0  # for a job that is being stopped: it writes what it has


@contextmanager
def locked(job: Path) -> Iterator[None]:
    """Locks a job's folder against other processes; UsageError if one keeps it for a minute."""
    from filelock import FileLock, Timeout

    lock = FileLock(job / "lock")
    try:
        lock.acquire(timeout=_LOCK_TIMEOUT_S)
    except Timeout as error:
        raise UsageError(f"the job {job.name} is still running there", "wait for it to end") from error
    try:
        yield
    finally:
        lock.release()


def take_up(out: Path, wanted: str) -> Path:
    """Moves the run that a job resumes, by its id or the start of it, into the job's folder `out`.

    It was sent along, or left by another job of this machine, whose folders lie beside; if both, the one that got
    further is taken. Raises UnknownNameError if there is none, UsageError if another job is measuring it.
    """
    own = _runs_called(out, wanted)
    for job in sorted(out.parent.parent.iterdir(), reverse=True):
        if job == out.parent or not _runs_called(job / OUT, wanted):
            continue
        with locked(job):
            left = _runs_called(job / OUT, wanted)
            if left and (not own or _reach(left[0]) > _reach(own[0])):
                for replaced in own:
                    shutil.rmtree(replaced)
                (out / RESULTS).mkdir(parents=True, exist_ok=True)
                own = [left[0].rename(out / RESULTS / left[0].name)]
            elif left:
                shutil.rmtree(left[0])
            is_empty = not list_runs(job / OUT / RESULTS, stopped=True)
        if is_empty:  # a run on several cards leaves one of each
            shutil.rmtree(job, ignore_errors=True)
    if not own:
        raise UnknownNameError(f"no run {wanted} here, and none is stored there", "gdnbench runs lists those here")
    return own[0]


def _runs_called(out: Path, wanted: str) -> list[Path]:
    runs = list_runs(out / RESULTS, stopped=True)[::-1]
    exact = [run for run in runs if run_id(run) == wanted]
    return exact or [run for run in runs if run_id(run).startswith(wanted)]


def run_id(folder: Path) -> str:
    """Returns the id of the run in a folder, which is hidden while it is measured."""
    hidden = PARTIAL.fullmatch(folder.name)
    return hidden["run_id"] if hidden else folder.name


def _reach(run: Path) -> tuple[bool, int]:
    journal = run / JOURNAL
    return read_info(run).complete, journal.stat().st_size if journal.exists() else 0


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
        # What ends a session sends SIGTERM to all of its processes: this one passes it on once.
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
