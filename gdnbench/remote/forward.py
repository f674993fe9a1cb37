"""Runs a command on the target that has its GPU, and downloads what it wrote."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.errors import ConnectionLostError, GdnbenchError, GpuNotFoundError, UsageError
from gdnbench.machine import gpus
from gdnbench.machine.gpus import names_model
from gdnbench.model.gpu import CPU
from gdnbench.origin import RESULTS, out_option
from gdnbench.process.events import Observer, StepChanged
from gdnbench.remote.engine import SILENCE_TIMEOUT_S, JobOutcome, run_job, slurm_launcher
from gdnbench.remote.environment import Prepared, prepare, put_files
from gdnbench.remote.host import Host, run_on_host
from gdnbench.remote.job import INPUTS, JOB, OUT, RemoteJob, run_id
from gdnbench.remote.targets import (
    NamedTarget,
    SlurmTarget,
    check_trusted,
    format_targets,
    load_targets,
    targets_with,
)
from gdnbench.remote.transfer import ExpectedOutput, OriginFolders, fetch, files_under
from gdnbench.verb_table import VERBS


@dataclass
class Forwarded:
    """A command for a target: the job without what only the target knows, and where its output belongs here.

    `unfinished` is the folder of the run that it resumes, if that is here; `inputs` are the files of captured inputs
    that it needs; `kernels` are those of `ExpectedOutput`. `runs` has the ids of the runs that it began, once they are
    known: several on several cards; `leftover` is the folder there with what was not downloaded, or empty.
    """

    named: NamedTarget
    job: RemoteJob
    homes: OriginFolders
    unfinished: Path | None = None
    inputs: Sequence[Path] = ()
    kernels: tuple[str, ...] = ()
    runs: list[str] = field(default_factory=list, init=False)
    leftover: str = field(default="", init=False)

    def execute(self, host: Host, observer: Observer) -> JobOutcome:
        """Runs the command on the target's connected host, and downloads what it wrote.

        Raises GdnbenchError if the target cannot be made ready, the connection is cut, or what comes back cannot be
        stored, with a hint how to get what is finished there; KeyboardInterrupt at a second Ctrl-C, or one before the
        command began.
        """
        if self.job.resume:
            self._note_run(self.job.resume)
        ready = prepare(self.named, host, observer)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        jobs = f"{ready.workdir}/jobs"
        self._send(ready, jobs, name)
        self.leftover = folder = f"{jobs}/{name}"
        target = self.named.target
        launcher = slurm_launcher(self.named, target, folder) if isinstance(target, SlurmTarget) else None
        try:
            outcome = run_job(ready, folder, observer, self._note_run, launcher)
            # Runs are known by their folders, too: one may have been resumed by the start of its id.
            parts = [path.partition("/") for path in outcome.folders]
            self.runs = [run_id(Path(run)) for parent, _, run in parts if parent == RESULTS.name] or self.runs
            if outcome.folders:
                observer(StepChanged(f"fetching from {host.name}"))
                expected = ExpectedOutput(self.job.verb, self.kernels, self.job.calibrates)
                fetch(host, f"{folder}/{OUT}", self.homes, expected)
        except GdnbenchError as error:
            if isinstance(error, ConnectionLostError) or self.runs:  # one of a worker that never began keeps its hint
                raise type(error)(error.message, self.recovery_hint) from error
            raise
        run_on_host(host, ["rm", "-rf", "--", folder])
        self.leftover = ""
        return outcome

    def _send(self, ready: Prepared, jobs: str, name: str) -> None:
        environment = dict(self.named.target.environment)
        job = replace(self.job, roots=list(ready.roots), environment=environment, patience_s=SILENCE_TIMEOUT_S)
        with tempfile.TemporaryDirectory(prefix="gdnbench-") as folder:
            inputs = {f"{INPUTS}/{file.name}": file for file in self.inputs}
            path = Path(folder) / JOB
            path.write_text(job.to_json(), encoding="utf-8")
            put_files(ready.host, jobs, name, {JOB: path, **self._unfinished_files(), **inputs})

    def _unfinished_files(self) -> Mapping[str, Path]:
        if self.unfinished is None:
            return {}
        folder = f"{OUT}/{RESULTS}/{self.unfinished.name}"
        return {f"{folder}/{name}": path for name, path in files_under(self.unfinished).items()}

    def _note_run(self, run: str) -> None:
        if run not in self.runs:
            self.runs.append(run)

    @property
    def recovery_hint(self) -> str:
        """How to get what is finished there and not here."""
        if not self.named.keeps_files:
            return f"run it again: {self.named.name} keeps nothing, and what was finished there is gone"
        if not self.runs or not VERBS[self.job.verb].splits:
            return f"run it again; what it left there is in {self.leftover}"
        own = ["--on", self.named.name, *out_option(self.homes.results)]
        own += ["--inputs", self.job.inputs] if self.job.inputs else []
        commands = [shlex.join(["gdnbench", "run", "--resume", run, *own]) for run in self.runs]
        return f"what is finished is kept there, and comes home by: {', '.join(commands)}"


def choose_target(gpu: str) -> NamedTarget | None:
    """Returns the target for `--gpu` where `--on` names none: the one that has the model, or None to run here.

    A GPU of this machine comes first. Raises GpuNotFoundError if no target has the model; UsageError if several have
    it, a `gdnbench.toml` is wrong, or it is a project's that was not confirmed.
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
            message = f"{len(having)} targets have a GPU {gpu!r}: {format_targets(having)}"
            raise UsageError(message, f"name one: --on {having[0].name}") from error
        others = load_targets()
        reason = f"No target has one: {format_targets(others.values()) if others else 'none is known'}."
        hint = f"gdnbench targets init NAME --ssh HOST --gpu {gpu} adds one; {error.hint}"
        raise GpuNotFoundError(f"{error.message} {reason}", hint) from error
    return None


def requested_models(named: NamedTarget, gpu: str) -> list[str]:
    """Returns the models of which the GPU there must be: the one that `--gpu` names, else those that the target has."""
    if gpu.strip().lower() == CPU:
        return []
    return [gpu] if names_model(gpu) else list(named.target.gpus)
