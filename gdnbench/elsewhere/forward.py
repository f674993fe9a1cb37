"""Runs a command on a target: send what it needs, run it there, bring home what it wrote."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.elsewhere.archive import files_under
from gdnbench.elsewhere.arrival import ExpectedOutput, Homes, fetch
from gdnbench.elsewhere.engine import PATIENCE_S, DirectEngine, Engine, JobOutcome
from gdnbench.elsewhere.environment import Prepared, prepare
from gdnbench.elsewhere.events import Listener
from gdnbench.elsewhere.host import Host, run_there
from gdnbench.elsewhere.job import INPUTS, JOB, OUT, RemoteJob
from gdnbench.elsewhere.kept import run_id
from gdnbench.elsewhere.slurm import SlurmEngine
from gdnbench.elsewhere.sources import put_files
from gdnbench.elsewhere.targets import NamedTarget, SlurmTarget
from gdnbench.errors import ConnectionLostError, GdnbenchError
from gdnbench.places import RESULTS, out_option

_RESUMED = ("run", "sweep")
"""The verbs whose run `run --resume` finishes."""


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

    def execute(self, host: Host, listener: Listener) -> JobOutcome:
        """Runs it there, and brings home what it wrote.

        Args:
            host: the target's, connected.
            listener: told of every step.

        Raises:
            GdnbenchError: if the target cannot be reached or made ready, the connection is cut, or what comes back
                cannot be kept; the hint says how to have what is finished there.
            KeyboardInterrupt: at a second Ctrl-C, or one before the command began.
        """
        if self.job.resume:
            self._note_run(self.job.resume)
        ready = prepare(self.named, host, listener)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        jobs = f"{ready.workdir}/jobs"
        self._send(ready, jobs, name)
        self.kept = f"{jobs}/{name}"
        try:
            outcome = self._engine(ready).run(self.kept, listener)
            self._note_folders(outcome.folders)
            if outcome.folders:
                listener.step(f"fetching from {host.name}")
                fetch(host, f"{self.kept}/{OUT}", self.homes, asked=ExpectedOutput(self.job.verb, self.kernels))
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
        if not self.runs or self.job.verb not in _RESUMED:
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
