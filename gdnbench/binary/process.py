"""A builder process as its parent sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gdnbench
from gdnbench.binary.job import Job, Result
from gdnbench.binary.wire import Stage, decode_reply, encode_job
from gdnbench.errors import BuildError

START_LIMIT_S = 180.0  # compilers from a cold network disk
_TAIL_LINES = 8  # of what a builder wrote to stderr before it died


class BuilderProcess:
    """A subprocess that builds one job at a time: `assign` one, then wait for `replies` and `collect` until it is done.

    Args:
        timeout_s: limit for compiling a job, in seconds.
        import_s: limit for running a Triton kernel's source, in seconds.

    Attributes:
        replies: file descriptor that becomes readable when there is something to collect or the process is dead.
        stage: how far it is with its job.
        alive: whether it can take a further job.
    """

    def __init__(self, timeout_s: float, import_s: float) -> None:
        self._limits_s = {Stage.STARTING: START_LIMIT_S, Stage.IMPORTING: import_s, Stage.COMPILING: timeout_s}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it as long as it lives
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gdnbench.binary.builder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # a line that waits in a buffer would not make `replies` readable
            stderr=self._log,
            env=_environment(),
            start_new_session=True,  # a process group, which `close` kills whole: compilers start ptxas
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._results = self._process.stdin, self._process.stdout
        self.replies = self._results.fileno()
        self.alive = True

    def assign(self, job: Job) -> None:
        """Hands over a job and starts its clock."""
        self._job = job
        self._begin(Stage.STARTING)
        self._log_start = os.fstat(self._log.fileno()).st_size
        # A process that has died meanwhile takes no job; `collect` will find it dead.
        with contextlib.suppress(BrokenPipeError):
            self._jobs.write(encode_job(job).encode())
            self._jobs.flush()

    @property
    def left_s(self) -> float:
        """Time left for the stage, in seconds; 0 or less when it is over."""
        return self._deadline - time.monotonic()

    def collect(self, readable: bool) -> Result | None:
        """What became of the job, once `replies` is readable or the time is over; None while it goes on.

        A process that failed is closed.
        """
        reply = self._results.readline() if readable else b""
        if reply.endswith(b"\n"):
            told = decode_reply(reply.decode())
            if not isinstance(told, Stage):
                return told
            self._begin(told)
            return None
        result = self._death() if readable else self._overrun()
        self.close()
        return result

    def _begin(self, stage: Stage) -> None:
        self.stage, self._deadline = stage, time.monotonic() + self._limits_s[stage]

    def close(self) -> None:
        """Kills the process and all that it started."""
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self._jobs.close()
        self._process.wait()
        self._results.close()
        self._log.close()

    def _overrun(self) -> BuildError:
        limit_s = self._limits_s[self.stage]
        if self.stage is Stage.IMPORTING:
            hint = "what does it wait for outside its functions?"
            return BuildError(f"{self._job}: importing its source did not end within {limit_s:g} s", hint)
        return BuildError(f"{self._job}: not built within {limit_s:g} s, while {self.stage}")

    def _death(self) -> BuildError:
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self._log.seek(self._log_start)
        tail = self._log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return BuildError("\n".join([f"{self._job}: the compiling process ended with {how}", *tail]))


def _environment() -> dict[str, str]:
    """This process's environment, made fit for a builder.

    The builder must import this very gdnbench, installed or not; and under Triton's interpreter nothing compiles.
    """
    package = str(Path(gdnbench.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}
