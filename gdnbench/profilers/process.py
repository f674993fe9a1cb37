"""Runs a worker under a profiler, or by itself, and tells how it ended."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.bench.environment import worker_environment
from gdnbench.errors import ProfilerError
from gdnbench.model import Gpu
from gdnbench.profilers.assignment import Assignment, worker_command


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        returncode: its exit code; negative for a signal.
        output: what it and its profiler printed.
    """

    returncode: int
    output: str

    @property
    def last_line(self) -> str:
        """The last thing it said; empty if nothing."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def check_left(ended: Ended, path: Path, failure: str, hint: str) -> None:
    """Makes sure that a process left what it was run for.

    Args:
        ended: how it ended.
        path: the file that it was to leave.
        failure: what to say if it failed or left nothing; its last words follow.
        hint: what to do then.

    Raises:
        ProfilerError: if so.
    """
    if ended.returncode or not path.is_file():
        said = ended.last_line or f"its worker ended with {ended.returncode}"
        raise ProfilerError(f"{failure}: {said}", hint)


def run_worker(
    assignment: Assignment,
    gpu: Gpu,
    *,
    limit_s: float,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a worker on a GPU, to its end.

    Args:
        assignment: what it is to do.
        gpu: where.
        limit_s: seconds after which it is taken down, with all that it started.
        wrapper: a profiler's command line, which the worker's follows.
        environment: variables on top of those that workers get.

    Raises:
        ProfilerError: if it does not end in time, or the profiler cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="gdnbench-profile-") as folder:
        path = Path(folder) / "assignment.json"
        assignment.write(path)
        return run_command(
            [*wrapper, *worker_command(path)],
            limit_s=limit_s,
            environment={**worker_environment(gpu), **(environment or {})},
        )


def run_command(command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Runs a command in a session of its own, so that all that it starts can be taken down with it.

    Raises:
        ProfilerError: if it does not end within `limit_s` seconds, or cannot be started.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    except OSError as error:
        raise ProfilerError(f"{command[0]} does not start: {error}", "see `gdnbench doctor`") from error
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise ProfilerError(
            f"{Path(command[0]).name} did not end within {limit_s:.0f} s", "give it longer with --limit"
        ) from error
    finally:
        _take_down(process)
    return Ended(process.returncode, output)


def _take_down(process: subprocess.Popen[str]) -> None:
    """Ends the process and whatever it started; nothing is left to do where it ended by itself."""
    import contextlib
    import signal

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
