"""A job: one command for another machine as a file, which of its words are sent, and the jobs that were left there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.origin import RESULTS
from gdnbench.regular_file import read_regular
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
        text = read_regular(path, MOST_BYTES)
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
