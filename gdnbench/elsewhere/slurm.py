"""Runs a job on a cluster: `srun` waits for a node, starts the worker there, and passes on what both sides say.

`srun` stays here, or on the login node, for as long as the job runs, so progress is live, Ctrl-C reaches the worker,
and the exit code is the worker's. What is finished lies in the target's folder, which nodes and login node share.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from gdnbench.elsewhere.engine import DirectEngine, JobOutcome
from gdnbench.elsewhere.environment import Prepared
from gdnbench.elsewhere.events import Listener
from gdnbench.elsewhere.host import run_there
from gdnbench.elsewhere.targets import NamedTarget, SlurmTarget

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

    def run(self, folder: str, listener: Listener) -> JobOutcome:
        """As `Engine.run`; whatever happens, no job is left."""
        # Its folder's name is the job's own: by that it can be cancelled, whatever its number.
        name = f"gdnbench-{PurePosixPath(folder).name}"
        launcher = ("srun", "--ntasks=1", "--unbuffered", *self.target.options, f"--job-name={name}")
        cure = f"see the options of [targets.{self.named.name}] in {self.named.file}, and that nodes see its workdir"
        engine = DirectEngine(self.ready, self.run_opened, launcher, self._waiting, cure)
        try:
            return engine.run(folder, listener)
        finally:
            with suppress(OSError):
                run_there(self.ready.host, ["scancel", "--quiet", f"--name={name}"])

    def _waiting(self, line: str) -> str:
        queued = _QUEUED.search(line)
        return f"job {queued[1]} waits in the queue of {self.ready.host.name}" if queued else ""
