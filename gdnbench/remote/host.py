"""Hosts, where programs are started: this machine, or one that `ssh` reaches."""

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
from typing import IO, Unpack

from gdnbench.errors import MachineError
from gdnbench.process.command import Completed, Streams, kill, run_tool, start

_CLOSING = re.compile(r"Exiting with failure status|Error is not recoverable")
_SSH_OPTIONS = (*("-T", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"), *("-o", "ConnectTimeout=30"))
_LONGEST_FOLDER = 25
_MASTER_S = 60  # that the shared connection outlasts its last user

_UNREACHED = 255
"""The exit code of ssh where it does not reach the host."""


class Host:
    """This machine; `name` is for messages, `python` an interpreter with the requirements, or empty."""

    name = "this machine"
    python = sys.executable

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts a program in a session of its own; raises OSError if it cannot be started."""
        return start(argv, **streams)

    def run(self, argv: Sequence[str], content: IO[bytes] | None = None) -> Completed:
        """Runs a program to its end, with an open file as its stdin; raises OSError if it cannot be started."""
        process = self.start(argv, stdin=content.fileno() if content else None, stdout=PIPE, stderr=PIPE)
        try:
            out, errors = process.communicate()
        finally:
            kill(process)
        return Completed(process.returncode, out.decode(errors="replace"), errors.decode(errors="replace"))

    def connect(self, argv: Sequence[str]) -> Completed:
        """Runs a first, short program while the user can enter a password; MachineError if unreached."""
        return self.run(argv)

    def close(self) -> None:
        """Ends the connection, if there is one."""


class SshHost(Host):
    """A machine by its name in the user's ssh config, over a shared connection; MachineError without `ssh`."""

    python = ""

    def __init__(self, host: str) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise MachineError("there is no ssh here", "install it: apt install openssh-client, say")
        self.name = host
        self._program = program
        # A socket's path takes 108 characters, of which ssh wants 60.
        parent = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_FOLDER else None
        self._folder = tempfile.TemporaryDirectory(prefix="gdnbench-", dir=parent)
        self._shared = self._sharing_options()

    def _sharing_options(self) -> tuple[str, ...]:
        """Returns options for a shared connection of our own, unless the user's config has one already."""
        with suppress(OSError, TimeoutError):
            settings = run_tool([self._program, "-G", "--", self.name], limit_s=10).output.splitlines()
            if any(line.lower().startswith("controlpath ") and not line.endswith(" none") for line in settings):
                return ()
        socket = str(Path(self._folder.name) / "%C")
        return ("-o", "ControlMaster=auto", "-o", f"ControlPath={socket}", "-o", f"ControlPersist={_MASTER_S}")

    def _command(self, argv: Sequence[str]) -> list[str]:
        # ssh joins its arguments with blanks and hands them to the login shell: one argument, quoted for it.
        return [self._program, *_SSH_OPTIONS, *self._shared, "--", self.name, shlex.join(argv)]

    def connect(self, argv: Sequence[str]) -> Completed:
        """Runs the program in the foreground, where ssh may prompt; raises MachineError if the host is not reached."""
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                self._command(argv), stdin=subprocess.DEVNULL, stdout=PIPE, stderr=errors, check=False
            )
            errors.seek(0)
            messages = errors.read().decode(errors="replace")
        if done.returncode == _UNREACHED:
            hint = f"try: ssh {shlex.quote(self.name)} true"
            raise MachineError(f"ssh does not reach {self.name}: {last_line(messages)}", hint)
        return Completed(done.returncode, done.stdout.decode(errors="replace"), messages)

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts the program there."""
        return start(self._command(argv), **streams)

    def close(self) -> None:
        """Ends the shared connection."""
        if self._shared:
            with suppress(OSError, TimeoutError):
                run_tool([self._program, *self._shared, "-O", "exit", "--", self.name], limit_s=10)
        self._folder.cleanup()


def shell(script: str, *arguments: str) -> list[str]:
    """Returns a POSIX shell's script as a program; its arguments are `$1` and so on, whatever is in them."""
    return ["sh", "-c", script, "gdnbench", *arguments]


def last_line(text: str) -> str:
    """Returns the last line that says something, for a message: tar ends with one that does not."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _CLOSING.search(line)]
    return lines[-1] if lines else "it gave no reason"
