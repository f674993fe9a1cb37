"""How a command ends: a message, a hint and an exit code for every failure.

Standard streams may be closed, read by nobody, or of an encoding that has no µ.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gdnbench import __version__
from gdnbench.errors import ExitCode, GdnbenchError, LeftOutWarning, MachineError, UnreadOutputError

MOST_LOGS = 20
WIDEST = 1000  # characters of a line
LONGEST_WORD = 250  # characters; the paths of files are shorter


def run_to_exit_code(command: Callable[[], object]) -> int:
    """Runs a command, which may raise anything; prints its error and a hint on stderr; returns the exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", LeftOutWarning)
        warnings.showwarning = _Warnings().show
        try:
            return _run(command)
        except UnreadOutputError as error:
            abandon_output()
            return error.exit_code
        except GdnbenchError as error:
            _print_error(error)
            return error.exit_code
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except _UnforeseenError as error:
            return _unforeseen(error.cause)
        except Exception as error:
            return _unforeseen(error)


def _unforeseen(error: BaseException) -> ExitCode:
    """Prints an unexpected error: of what is not installed, or of gdnbench itself."""
    if isinstance(error, ModuleNotFoundError) and not (error.name or "gdnbench").startswith("gdnbench"):
        _print_error(MachineError(f"the module {error.name} is not installed", "pip install gdnbench installs it"))
        return ExitCode.ENVIRONMENT
    return _crashed(error)


class _UnforeseenError(Exception):
    """Carries an error out of Typer, which has an exit code of its own for it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


@contextlib.contextmanager
def ended_by_none() -> Iterator[None]:
    """Makes a failure like any other of what Typer takes for the user's wish to end.

    SystemExit comes of what a declaration or a library calls, and would end the verb well before it has printed
    anything; EOFError would be "Aborted." and the exit code of a regression.
    """
    try:
        yield
    except EOFError as error:
        raise _UnforeseenError(error) from error
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Rich exits with 1 for it
            raise
        raise _UnforeseenError(stop) from stop


def _run(command: Callable[[], object]) -> int:
    code: object = 0
    try:
        try:
            command()
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # Rich and Typer exit with 1 for it
                raise stop.__context__ from None
            code = stop.code
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise UnreadOutputError("nobody reads standard output") from error
    except OSError as error:
        raise _file_system_error(error) from error
    return code if isinstance(code, int) else 0 if code is None else ExitCode.USAGE


def _file_system_error(error: OSError) -> MachineError:
    """Returns an error of the file system: a full disk, a name that is too long, a file without permission."""
    abandon_output()
    what = f"{error.filename}: " if error.filename else ""
    return MachineError(f"{what}{error.strerror or error}", "check the path, its owner and the room on its disk")


def _print_error(error: GdnbenchError) -> None:
    from rich.text import Text

    from gdnbench.render.console import message_console

    console = message_console()
    console.print(Text.assemble(("error:", "bold red"), " ", _shortened(error.message)))
    if error.hint:
        console.print(Text.assemble(("hint:", "cyan"), "  ", _shortened(error.hint)))


def _shortened(text: str) -> str:
    """Returns the text with words of hundreds of characters cut in the middle: a typed name may be that long."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", text)


def _crashed(error: BaseException) -> ExitCode:
    """Reports a bug of gdnbench: one line for the user, the traceback in a log file."""
    summary = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    report = "".join(traceback.format_exception(error))
    try:
        hint = f"please report it, with {_write_log(report)}"
    except (OSError, ImportError):
        hint = f"please report it, with this:\n{report}"
    _print_error(GdnbenchError(f"gdnbench itself failed: {summary}", hint))
    return ExitCode.CRASHED


def _write_log(report: str) -> Path:
    from platformdirs import user_log_path

    folder = user_log_path("gdnbench", appauthor=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    about = f"gdnbench {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv}\n\n"
    path.write_text(about + report, encoding="utf-8", errors="backslashreplace")
    for old in sorted(folder.glob("crash-*.log"))[:-MOST_LOGS]:
        old.unlink(missing_ok=True)
    return path


class _Warnings:
    """Prints each warning of gdnbench once, on stderr; warnings of libraries are shown as before."""

    def __init__(self) -> None:
        self._others, self._printed = warnings.showwarning, set[str]()

    def show(self, message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        if not issubclass(category, LeftOutWarning):
            self._others(message, category, *place, **more)  # type: ignore[arg-type]
        elif str(message) not in self._printed:
            self._printed.add(str(message))
            self._print(str(message))

    @staticmethod
    def _print(message: str) -> None:
        from gdnbench.render.console import message_console

        message_console().print(f"warning: {message}", style="yellow", markup=False)


def prepare_streams() -> None:
    """Replaces characters that the terminal's encoding lacks by a `?`, which is as wide.

    What is written to a closed stream is discarded, and so are messages that cannot be written. A width that no table
    has is none: lines are padded to it.
    """
    if len(os.environ.get("COLUMNS", "").lstrip("0")) > len(str(WIDEST)):
        os.environ["COLUMNS"] = str(WIDEST)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for the process's life
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    own = sys.__stderr__
    if own is not None and sys.stderr is own:
        messages = io.BufferedWriter(_Messages(own.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(messages, own.encoding, "replace", line_buffering=True)


class _Messages(io.FileIO):
    """Standard error, which may be full or read by nobody: what a command did is in its exit code all the same."""

    def write(self, data: Any) -> int:
        """Writes, or discards."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def abandon_output() -> None:
    """Discards buffered output that nobody reads, so that the exit of the process does not fail on it."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard_output()


def _discard_output() -> None:
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
