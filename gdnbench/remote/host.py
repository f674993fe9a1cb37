"""A host: where programs are started and trees of files are put and fetched, this machine or one that `ssh` reaches."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Protocol, Unpack

from gdnbench.errors import MachineError
from gdnbench.process.command import Completed, Streams, kill, start

_CLOSING = re.compile(r"Exiting with failure status|Error is not recoverable")
SSH_FAILED = 255  # of ssh's exit codes: the connection, not the command
_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
_CONNECT = ("-o", "ConnectTimeout=30")
_LONGEST_PLACE = 25
_MASTER_S = 60  # that the shared connection outlasts its last user


class Host(Protocol):
    """A machine on which programs can be started.

    Attributes:
        name: as messages call it.
        python: an interpreter there that has gdnbench's requirements; empty if none is known.
    """

    name: str
    python: str

    def connect(self, argv: Sequence[str]) -> Completed:
        """Runs a first, short program while the user can still be asked for a password.

        Raises:
            MachineError: if the host cannot be reached.
        """

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts a program in a session of its own.

        Raises:
            OSError: if it cannot be started.
        """

    def close(self) -> None:
        """Ends what connects to it."""


class LocalHost:
    """This machine."""

    name = "this machine"
    python = sys.executable

    def connect(self, argv: Sequence[str]) -> Completed:
        """Runs it."""
        return run_there(self, argv)

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts it."""
        return start(argv, **streams)

    def close(self) -> None:
        """Nothing connects to it."""


class SshHost:
    """A machine that the system's `ssh` reaches, over one connection that all programs share.

    Args:
        host: as in the user's ssh config.

    Raises:
        MachineError: if there is no `ssh` here.
    """

    def __init__(self, host: str) -> None:
        if host.startswith("-"):
            raise MachineError(f"{host!r} is no host: ssh would take it for an option", "correct gdnbench.toml")
        program = shutil.which("ssh")
        if program is None:
            raise MachineError("there is no ssh here", "install it: apt install openssh-client, say")
        self.name = host
        self.python = ""
        self._program = program
        # A socket's path takes 108 characters, of which ssh wants 60.
        place = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_PLACE else None
        self._folder = tempfile.TemporaryDirectory(prefix="gdnbench-", dir=place)
        self._shared = self._shares()

    def _shares(self) -> tuple[str, ...]:
        """Options for a shared connection of our own, unless the user's config has one already."""
        with suppress(OSError, TimeoutError):
            settings = run_tool_lines([self._program, "-G", "--", self.name])
            if any(line.lower().startswith("controlpath ") and not line.endswith(" none") for line in settings):
                return ()
        socket = str(Path(self._folder.name) / "%C")
        return ("-o", "ControlMaster=auto", "-o", f"ControlPath={socket}", "-o", f"ControlPersist={_MASTER_S}")

    def _command(self, argv: Sequence[str]) -> list[str]:
        options = ("-T", *_ALIVE, *_CONNECT, *self._shared)
        # ssh joins its arguments with blanks and hands them to the login shell: one argument, quoted for it.
        return [self._program, *options, "--", self.name, shlex.join(argv)]

    def connect(self, argv: Sequence[str]) -> Completed:
        """Runs it in the foreground, where ssh may ask for a password; what it asks is its own.

        Raises:
            MachineError: if the host cannot be reached.
        """
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                self._command(argv), stdin=subprocess.DEVNULL, stdout=PIPE, stderr=errors, check=False
            )
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        if done.returncode == SSH_FAILED:
            raise MachineError(
                f"ssh does not reach {self.name}: {last_line(said)}", f"try: ssh {shlex.quote(self.name)} true"
            )
        return Completed(done.returncode, done.stdout.decode(errors="replace"), said)

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts it there."""
        return start(self._command(argv), **streams)

    def close(self) -> None:
        """Ends the shared connection."""
        if self._shared:
            with suppress(OSError):
                subprocess.run(
                    [self._program, *self._shared, "-O", "exit", "--", self.name],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    timeout=10,
                )
        self._folder.cleanup()


def run_there(host: Host, argv: Sequence[str], content: IO[bytes] | None = None) -> Completed:
    """Runs a program on a host to its end.

    Args:
        host: where.
        argv: the program and its arguments.
        content: an open file for its stdin.

    Raises:
        OSError: if it cannot be started.
    """
    process = host.start(argv, stdin=content.fileno() if content else None, stdout=PIPE, stderr=PIPE)
    try:
        out, errors = process.communicate()
    finally:
        kill(process)
    return Completed(process.returncode, out.decode(errors="replace"), errors.decode(errors="replace"))


def shell(script: str, *arguments: str) -> list[str]:
    """A POSIX shell's script as a program; its arguments are `$1` and so on, whatever is in them."""
    return ["sh", "-c", script, "gdnbench", *arguments]


def last_line(text: str) -> str:
    """The last line that says something, for a message: tar ends with one that does not."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _CLOSING.search(line)]
    return lines[-1] if lines else "it gave no reason"


def run_tool_lines(command: Sequence[str]) -> list[str]:
    """The lines that a short command prints.

    Raises:
        OSError: if it cannot be started.
        TimeoutError: if it does not end.
    """
    from gdnbench.process.command import run_tool

    return run_tool(command, limit_s=10).output.splitlines()
