"""Runs a command on a target: send what it needs, run it there, bring home what it wrote."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.elsewhere.archive import files_under
from gdnbench.elsewhere.arrival import Homes, fetch
from gdnbench.elsewhere.engine import PATIENCE_S, DirectEngine, Engine, JobOutcome
from gdnbench.elsewhere.environment import Prepared, prepare
from gdnbench.elsewhere.events import Listener
from gdnbench.elsewhere.host import Host, run_there
from gdnbench.elsewhere.job import JOB, OUT, RemoteJob
from gdnbench.elsewhere.sources import put_files
from gdnbench.elsewhere.targets import NamedTarget
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
        run: the id of the run that it began, once that is known.
        kept: the folder there that keeps what was not brought home; empty for none.
    """

    named: NamedTarget
    job: RemoteJob
    homes: Homes
    unfinished: Path | None = None
    run: str = field(default="", init=False)
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
        self.run = self.job.resume
        ready = prepare(self.named, host, listener)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        jobs = f"{ready.workdir}/jobs"
        self._send(ready, jobs, name)
        self.kept = f"{jobs}/{name}"
        try:
            outcome = self._engine(ready).run(self.kept, listener)
            for folder in outcome.folders:
                self._note_folder(folder)
            if outcome.folders:
                listener.step(f"fetching from {host.name}")
                fetch(host, f"{self.kept}/{OUT}", self.homes)
        except GdnbenchError as error:
            raise self._with_way_out(error) from error
        run_there(host, ["rm", "-rf", "--", self.kept])
        self.kept = ""
        return outcome

    def _engine(self, ready: Prepared) -> Engine:
        """Starts the worker there: of every kind of target so far as a program of its host."""
        return DirectEngine(ready, self._note_run)

    def _send(self, ready: Prepared, jobs: str, name: str) -> None:
        job = replace(
            self.job,
            roots=list(ready.roots),
            environment=dict(self.named.target.environment),
            patience_s=PATIENCE_S,
        )
        with tempfile.TemporaryDirectory(prefix="gdnbench-") as folder:
            path = Path(folder) / JOB
            path.write_text(job.to_json(), encoding="utf-8")
            put_files(ready.host, jobs, name, {JOB: path, **self._unfinished_files()})

    def _unfinished_files(self) -> Mapping[str, Path]:
        if self.unfinished is None:
            return {}
        place = f"{OUT}/{RESULTS}/{self.unfinished.name}"
        return {f"{place}/{name}": path for name, path in files_under(self.unfinished).items()}

    def _note_run(self, run_id: str) -> None:
        self.run = run_id

    def _note_folder(self, folder: str) -> None:
        """The run that was made is known by its folder, where it was not told when it began."""
        place, _, name = folder.partition("/")
        if not self.run and place == RESULTS.name and self.job.verb in _RESUMED:
            self.run = name.removeprefix(".").removesuffix(".partial")

    @property
    def way_out(self) -> str:
        """What to do for what is finished there and is not here."""
        if self.run and self.job.verb in _RESUMED:
            words = ["gdnbench", "run", "--resume", self.run, "--on", self.named.name, *out_option(self.homes.results)]
            return f"what is finished is kept there, and comes home by: {shlex.join(words)}"
        return f"run it again; what it left there is in {self.kept}"

    def _with_way_out(self, error: GdnbenchError) -> GdnbenchError:
        """The error with that as its hint; one of a worker that never began keeps its own."""
        if not isinstance(error, ConnectionLostError) and not self.run:
            return error
        return type(error)(error.message, self.way_out)
