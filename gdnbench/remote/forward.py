"""Runs a command on the target that has its GPU, by ssh, Slurm or Modal, and brings home what it wrote.

Runs a job on a cluster: `srun` waits for a node, starts the worker there, and passes on what both sides say.

`srun` stays here, or on the login node, for as long as the job runs, so progress is live, Ctrl-C reaches the worker,
and the exit code is the worker's. What is finished lies in the target's folder, which nodes and login node share.
"""

from __future__ import annotations

import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from gdnbench.errors import ConnectionLostError, GdnbenchError, GpuNotFoundError, UsageError
from gdnbench.machine import gpus
from gdnbench.machine.gpus import names_model
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, out_option
from gdnbench.process.events import Observer, StepChanged
from gdnbench.remote.archive import files_under
from gdnbench.remote.arrival import ExpectedOutput, Homes, fetch
from gdnbench.remote.engine import PATIENCE_S, DirectEngine, Engine, JobOutcome
from gdnbench.remote.environment import Prepared, prepare, put_files
from gdnbench.remote.host import Host, run_there
from gdnbench.remote.job import INPUTS, JOB, OUT, RemoteJob, run_id
from gdnbench.remote.targets import NamedTarget, SlurmTarget, check_trusted, load_targets, targets_with, told
from gdnbench.verb_table import VERBS

_QUEUED = re.compile(r"srun: job (\d+) queued and waiting")


@dataclass
class SlurmEngine:
    """Runs a job's worker on a node of a cluster.

    Attributes:
        ready: the target; its host has `srun`.
        named: the target as the file has it.
        target: its table.
        run_opened: told of the run that the job began, by id.
    """

    ready: Prepared
    named: NamedTarget
    target: SlurmTarget
    run_opened: Callable[[str], None]

    def run(self, folder: str, observer: Observer) -> JobOutcome:
        """As `Engine.run`; whatever happens, no job is left."""
        # Its folder's name is the job's own: by that it can be cancelled, whatever its number.
        name = f"gdnbench-{PurePosixPath(folder).name}"
        launcher = ("srun", "--ntasks=1", "--unbuffered", *self.target.options, f"--job-name={name}")
        cure = f"see the options of [targets.{self.named.name}] in {self.named.file}, and that nodes see its workdir"
        engine = DirectEngine(self.ready, self.run_opened, launcher, self._waiting, cure)
        try:
            return engine.run(folder, observer)
        finally:
            with suppress(OSError):
                run_there(self.ready.host, ["scancel", "--quiet", f"--name={name}"])

    def _waiting(self, line: str) -> str:
        queued = _QUEUED.search(line)
        return f"job {queued[1]} waits in the queue of {self.ready.host.name}" if queued else ""


@dataclass
class Forwarded:
    """A command for a target.

    Attributes:
        named: the target.
        job: the command, without what only the target knows.
        homes: where what it writes belongs.
        unfinished: the run that it goes on with, here; None for none.
        inputs: the files of captured inputs that it needs.
        kernels: that it names, as `ExpectedOutput` has them.
        runs: the ids of the runs that it began, once they are known: several on several cards.
        kept: the folder there that keeps what was not brought home; empty for none.
    """

    named: NamedTarget
    job: RemoteJob
    homes: Homes
    unfinished: Path | None = None
    inputs: Sequence[Path] = ()
    kernels: tuple[str, ...] = ()
    runs: list[str] = field(default_factory=list, init=False)
    kept: str = field(default="", init=False)

    def execute(self, host: Host, observer: Observer) -> JobOutcome:
        """Runs it there, and brings home what it wrote.

        Args:
            host: the target's, connected.
            observer: told of every step.

        Raises:
            GdnbenchError: if the target cannot be reached or made ready, the connection is cut, or what comes back
                cannot be kept; the hint says how to have what is finished there.
            KeyboardInterrupt: at a second Ctrl-C, or one before the command began.
        """
        if self.job.resume:
            self._note_run(self.job.resume)
        ready = prepare(self.named, host, observer)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        jobs = f"{ready.workdir}/jobs"
        self._send(ready, jobs, name)
        self.kept = f"{jobs}/{name}"
        try:
            outcome = self._engine(ready).run(self.kept, observer)
            self._note_folders(outcome.folders)
            if outcome.folders:
                observer(StepChanged(f"fetching from {host.name}"))
                expected = ExpectedOutput(self.job.verb, self.kernels, self.job.calibrates)
                fetch(host, f"{self.kept}/{OUT}", self.homes, asked=expected)
        except GdnbenchError as error:
            raise self._with_way_out(error) from error
        run_there(host, ["rm", "-rf", "--", self.kept])
        self.kept = ""
        return outcome

    def _engine(self, ready: Prepared) -> Engine:
        """Starts the worker there: as a program of its host, or by what its host has for that."""
        target = self.named.target
        if isinstance(target, SlurmTarget):
            return SlurmEngine(ready, self.named, target, self._note_run)
        return DirectEngine(ready, self._note_run)

    def _send(self, ready: Prepared, jobs: str, name: str) -> None:
        job = replace(
            self.job,
            roots=list(ready.roots),
            environment=dict(self.named.target.environment),
            patience_s=PATIENCE_S,
        )
        with tempfile.TemporaryDirectory(prefix="gdnbench-") as folder:
            inputs = {f"{INPUTS}/{file.name}": file for file in self.inputs}
            path = Path(folder) / JOB
            path.write_text(job.to_json(), encoding="utf-8")
            put_files(ready.host, jobs, name, {JOB: path, **self._unfinished_files(), **inputs})

    def _unfinished_files(self) -> Mapping[str, Path]:
        if self.unfinished is None:
            return {}
        place = f"{OUT}/{RESULTS}/{self.unfinished.name}"
        return {f"{place}/{name}": path for name, path in files_under(self.unfinished).items()}

    def _note_run(self, run: str) -> None:
        if run not in self.runs:
            self.runs.append(run)

    def _note_folders(self, folders: Iterable[str]) -> None:
        """Runs are known by their folders, too: one may have been taken up by the start of its id."""
        places = [folder.partition("/") for folder in folders]
        self.runs = [run_id(Path(name)) for place, _, name in places if place == RESULTS.name] or self.runs

    @property
    def way_out(self) -> str:
        """What to do for what is finished there and is not here."""
        if not self.named.keeps:
            return f"run it again: {self.named.name} keeps nothing, and what was finished there is gone"
        if not self.runs or not VERBS[self.job.verb].splits:
            return f"run it again; what it left there is in {self.kept}"
        own = ["--on", self.named.name, *out_option(self.homes.results)]
        own += ["--inputs", self.job.inputs] if self.job.inputs else []
        commands = [shlex.join(["gdnbench", "run", "--resume", run, *own]) for run in self.runs]
        return f"what is finished is kept there, and comes home by: {', '.join(commands)}"

    def _with_way_out(self, error: GdnbenchError) -> GdnbenchError:
        """The error with that as its hint; one of a worker that never began keeps its own."""
        if not isinstance(error, ConnectionLostError) and not self.runs:
            return error
        return type(error)(error.message, self.way_out)


def choose_target(gpu: str) -> NamedTarget | None:
    """The target for `--gpu`, where `--on` names none: a GPU here comes first, else the one target that has the model.

    Args:
        gpu: as `--gpu` takes it.

    Returns:
        The target; None to run here.

    Raises:
        GpuNotFoundError: if targets are known, and none has the model.
        UsageError: if several have it, a `gdnbench.toml` is wrong, or it is a project's that was not confirmed.
    """
    if not names_model(gpu):
        return None
    try:
        gpus.select_gpu(gpu, gpus.list_gpus())
    except GpuNotFoundError as error:
        having = targets_with(gpu)
        if len(having) == 1:
            check_trusted(having[0], gpu)
            return having[0]
        if having:
            message = f"{len(having)} targets have a GPU {gpu!r}: {told(having)}"
            raise UsageError(message, f"name one: --on {having[0].name}") from error
        others = load_targets()
        known = f"No target has one: {told(others.values())}." if others else "No target has one: none is known."
        hint = f"gdnbench targets init NAME --ssh HOST --gpu {gpu} adds one; {error.hint}"
        raise GpuNotFoundError(f"{error.message} {known}", hint) from error
    return None


def models_asked(named: NamedTarget, gpu: str) -> list[str]:
    """The models of which the GPU there must be: the one that `--gpu` names, else those that the target has."""
    if gpu.strip().lower() == CPU:
        return []
    return [gpu] if names_model(gpu) else list(named.target.gpus)
