"""Failures of gdnbench: one class per failure, an exit code per class, a hint in each."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """The exit code of the process; `meaning` is one line, shown in `--help`."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """Makes an int that carries its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "everything requested was done"
    REGRESSION = 1, "a measured regression, or a rule that is broken"
    USAGE = 2, "a wrong option, name or value"
    WRONG_NUMBERS = 3, "a kernel's numbers are wrong"
    NOISY = 4, "could not measure well enough to answer"
    ENVIRONMENT = 5, "no GPU, the wrong GPU, or no permission"
    BUILD = 6, "a kernel did not build or load"
    PROFILER = 7, "a profiler failed, or its report cannot be read"
    PARTIAL = 8, "some cases were not measured"
    SAME = 9, "a score: as fast as what it was compared with"
    NOT_TIMED = 10, "a score: right as far as an interpreter tells, and not timed"
    CRASHED = 70, "gdnbench itself failed; a log says where"
    INTERRUPTED = 130, "stopped by Ctrl-C, SIGTERM or SIGHUP"
    UNREAD = 141, "the reader of the output was gone"


class GdnbenchError(Exception):
    """A failure that a user can act on: a message in one sentence, and a hint at the next step, which may be empty."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GdnbenchError):
    """A wrong option, name or value."""

    exit_code = ExitCode.USAGE


class UnknownNameError(UsageError):
    """A kernel, op, param or layout that does not exist."""


class UnknownRevisionError(UnknownNameError):
    """A git revision that does not exist in the repository."""


class SameSourcesError(UsageError):
    """A kernel is the same at two git revisions."""


class ShapeError(UsageError):
    """A workload the op does not define."""


class ParamError(UsageError):
    """A value that a kernel's param does not accept."""


class DeclarationError(GdnbenchError):
    """A `variant.py` or `op.py` that cannot be loaded or contradicts itself."""

    exit_code = ExitCode.BUILD


class GpuNotFoundError(GdnbenchError):
    """The requested GPU is not on this machine."""

    exit_code = ExitCode.ENVIRONMENT


class UnreadOutputError(GdnbenchError):
    """The reader of standard output, such as `head`, closed it."""

    exit_code = ExitCode.UNREAD


class MachineError(GdnbenchError):
    """The machine lacks something that the command needs."""

    exit_code = ExitCode.ENVIRONMENT


class ConnectionLostError(MachineError):
    """The connection to another machine was cut while a job ran there."""


class NotInterpretedError(MachineError):
    """A PTX kernel uses something that the interpreter does not know, so its result would be a guess."""


class BuildError(GdnbenchError):
    """The compiler rejected a kernel; the message is the compiler's own."""

    exit_code = ExitCode.BUILD


class ProfilerError(GdnbenchError):
    """A profiler failed, or its output cannot be used."""

    exit_code = ExitCode.PROFILER


class ProfilerTimedOutError(ProfilerError):
    """A profiler, or the program that it watched, did not end in time."""


class ReportFormatError(ProfilerError):
    """A file is not a profiler's report, or is damaged."""


class MissingCounterError(ProfilerError):
    """A counter could not be read: the profiler wrote NaN."""


class RunFormatError(UsageError):
    """A stored run is damaged."""


class UnreadableError(RunFormatError):
    """A stored file cannot be read by this user or on this machine."""

    exit_code = ExitCode.ENVIRONMENT


class LeftOutWarning(UserWarning):
    """An unreadable item among many was left out."""


@contextmanager
def collect_left_out() -> Iterator[list[str]]:
    """Collects the messages of `LeftOutWarning` raised within it, for a caller that prints them by its own output."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeftOutWarning)
        yield messages
    messages.extend(str(warning.message) for warning in caught)


def raised_at(error: BaseException, *places: Path) -> tuple[Path, int] | None:
    """Returns the file and line within these places that an exception passed last, or None."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno and _is_in(error.filename, places):
        return Path(error.filename), error.lineno
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_in(frame.filename, places)]
    if frames:
        return Path(frames[-1].filename), frames[-1].lineno or 0
    return raised_at(error.__cause__, *places) if error.__cause__ else None


def tell_raised(error: Exception, *places: Path) -> str:
    """Returns place, exception type and text in one line: the text's first line, or two if that ends with a colon."""
    if isinstance(error, GdnbenchError):
        return error.message
    first, _, rest = str(error).strip().partition("\n")
    if first.endswith(":"):  # the reason is on the next line: `backend='inductor' raised:`
        first = f"{first} {rest.strip().partition(chr(10))[0]}".rstrip()
    at = raised_at(error, *places)
    return ": ".join(filter(None, [f"{at[0].name}:{at[1]}" if at else "", type(error).__name__, first]))


def _is_in(filename: str, places: tuple[Path, ...]) -> bool:
    return any(Path(filename).is_relative_to(place) for place in places)
