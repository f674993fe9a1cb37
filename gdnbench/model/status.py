"""How a case ended."""

from __future__ import annotations

from enum import StrEnum

from gdnbench.errors import ExitCode


class Status(StrEnum):
    """How a case ended. Only `OK` has a time.

    `exit_code` is what a case that ended so makes of a run.
    """

    OK = "ok"  # verified, and measured where there is something to measure with
    MISSING = "missing"  # needs a module that is not installed
    BROKEN = "broken"  # its declaration or its implementation could not be loaded
    BUILD_FAILED = "build-failed"  # the compiler rejected it
    WRONG_NUMBERS = "wrong-numbers"  # outside the gates around the oracle
    UNWRITTEN = "unwritten-output"  # left part of an output unwritten
    CHANGED_INPUT = "changed-input"  # wrote to a read-only input
    WRONG_STREAM = "wrong-stream"  # launched work elsewhere than on the stream it was given
    SYNCHRONISES = "synchronises"  # waits or allocates inside, which cannot be timed or captured
    CRASHED = "crashed"  # its process died, or the GPU reported a fault
    TIMED_OUT = "timed-out"  # a step exceeded its time limit
    FAILED = "failed"  # raised an exception
    UNSUPPORTED = "unsupported"  # cannot run on the device at hand
    NOT_RUN = "not-run"  # the run was stopped before its turn

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that this status calls for."""
        return _EXIT_CODES.get(self, ExitCode.PARTIAL)

    @property
    def is_failure(self) -> bool:
        """Whether something went wrong, rather than being impossible or not needed here."""
        return self not in {Status.OK, Status.MISSING, Status.UNSUPPORTED}


_EXIT_CODES = {
    Status.OK: ExitCode.OK,
    Status.MISSING: ExitCode.OK,
    Status.UNSUPPORTED: ExitCode.OK,
    Status.BUILD_FAILED: ExitCode.BUILD,
    Status.BROKEN: ExitCode.BUILD,
    Status.WRONG_NUMBERS: ExitCode.WRONG_NUMBERS,
    Status.UNWRITTEN: ExitCode.WRONG_NUMBERS,
    Status.CHANGED_INPUT: ExitCode.WRONG_NUMBERS,
}
