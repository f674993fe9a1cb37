"""How a command ends: a message, a hint and an exit code for whatever happened."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from gdnbench import __version__
from gdnbench.cli.streams import abandon_output
from gdnbench.errors import ExitCode, GdnbenchError, LeftOutWarning, MachineError, UnreadOutputError

MOST_LOGS = 20
LONGEST_WORD = 250  # characters; the paths of files are shorter


def exit_code_of(command: Callable[[], object]) -> int:
    """Runs a command and says on stderr how it failed, if it did.

    Args:
        command: it may end by returning, by SystemExit, or by any exception.

    Returns:
        What the process is to tell its caller.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", LeftOutWarning)
        warnings.showwarning = _Warnings().show
        try:
            return _run(command)
        except UnreadOutputError as error:
            abandon_output()
            return error.exit_code
        except GdnbenchError as error:
            _say(error)
            return error.exit_code
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and not (error.name or "gdnbench").startswith("gdnbench"):
                _say(MachineError(f"the module {error.name} is not installed", "pip install gdnbench installs it"))
                return ExitCode.ENVIRONMENT
            return _crashed(error)


def _run(command: Callable[[], object]) -> int:
    code: object = 0
    try:
        try:
            command()
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # Rich's and Typer's way to say so, with code 1
                raise stop.__context__ from None
            code = stop.code
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise UnreadOutputError("nobody reads standard output") from error
    except OSError as error:
        raise _of_the_machine(error) from error
    return code if isinstance(code, int) else 0 if code is None else ExitCode.USAGE


def _of_the_machine(error: OSError) -> MachineError:
    """What the machine refused: a full disk, a name that is too long, a file that may not be read."""
    abandon_output()
    what = f"{error.filename}: " if error.filename else ""
    return MachineError(f"{what}{error.strerror or error}", "look at the place, its owner and the room on its disk")


def _say(error: GdnbenchError) -> None:
    from rich.text import Text

    from gdnbench.report.console import message_console

    console = message_console()
    console.print(Text.assemble(("error:", "bold red"), " ", _shortened(error.message)))
    if error.hint:
        console.print(Text.assemble(("hint:", "cyan"), "  ", _shortened(error.hint)))


def _shortened(text: str) -> str:
    """The text without the middle of words that fill lines: somebody gave a name of thousands of characters."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", text)


def _crashed(error: Exception) -> ExitCode:
    """A fault of gdnbench's own: one line for the user, the rest for whoever mends it."""
    told = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    report = "".join(traceback.format_exception(error))
    try:
        hint = f"please report it, with {_write_log(report)}"
    except (OSError, ImportError):
        hint = f"please report it, with this:\n{report}"
    _say(GdnbenchError(f"gdnbench itself failed: {told}", hint))
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
    """Says each warning of ours once, on stderr; those of others go where they went."""

    def __init__(self) -> None:
        self._others, self._said = warnings.showwarning, set[str]()

    def show(self, message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        if not issubclass(category, LeftOutWarning):
            self._others(message, category, *place, **more)  # type: ignore[arg-type]
        elif str(message) not in self._said:
            self._said.add(str(message))
            self._print(str(message))

    @staticmethod
    def _print(message: str) -> None:
        from gdnbench.report.console import message_console

        message_console().print(f"warning: {message}", style="yellow", markup=False)
