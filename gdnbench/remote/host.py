"""Hosts, where programs are started: this machine, one that `ssh` reaches, or a sandbox of Modal's.

A sandbox (modal.com) is a container with a GPU that lives as long as one command of gdnbench's. Modal's client gives a
program's streams as objects, not as descriptors. So a program there is started as one is by `ssh`: by a process here,
`gdnbench.remote.sandbox_exec`, whose own streams and exit code are the program's.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, Unpack

from gdnbench.errors import MachineError
from gdnbench.process.command import PYTHON, Completed, Streams, kill, run_tool, start
from gdnbench.process.worker import python_path
from gdnbench.remote.sandbox_exec import FAILED
from gdnbench.remote.targets import ModalTarget

_CLOSING = re.compile(r"Exiting with failure status|Error is not recoverable")
_SSH_OPTIONS = (*("-T", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"), *("-o", "ConnectTimeout=30"))
_LONGEST_FOLDER = 25
_MASTER_S = 60  # that the shared connection outlasts its last user

APP = "gdnbench"
"""The app of the user's workspace that the sandboxes belong to."""

IDLE_S = 300
"""Seconds without a program after which Modal ends a sandbox that a killed gdnbench has left."""

_CONSTRAINTS = "/gdnbench/constraints.txt"
_UPGRADED = {"H100": "H100!"}
"""Models in whose place Modal may give a better one, and its spelling that forbids it."""


class Host(ABC):
    """A machine for programs; `name` is for messages, `python` one with the requirements, or empty."""

    name: str
    python = ""

    @abstractmethod
    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts a program in a session of its own; raises OSError if it cannot be started."""

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

    def close(self) -> None:  # noqa: B027 - of a host without a connection there is nothing to do
        """Ends the connection."""


class LocalHost(Host):
    """This machine."""

    name = "this machine"
    python = sys.executable

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts the program."""
        return start(argv, **streams)


class SshHost(Host):
    """A machine by its name in the user's ssh config, over a shared connection; MachineError without `ssh`."""

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
        if done.returncode == FAILED:
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


@dataclass(frozen=True)
class Requirements:
    """What an environment or an image is made of, as pip takes it: requirements, and the text of a file of pins."""

    packages: tuple[str, ...] = ()
    constraints: str = ""


class ModalHost(Host):
    """A sandbox, whose image has the packages, from connection to end; MachineError without Modal's client."""

    name = "Modal"
    python = "python"

    def __init__(self, target: ModalTarget, wanted: Requirements) -> None:
        if find_spec("modal") is None:
            raise MachineError("a target of kind modal needs the package modal", "pip install 'gdnbench[modal]'")
        self._target = target
        self._wanted = wanted
        self._sandbox: Any = None

    def connect(self, argv: Sequence[str]) -> Completed:
        """Starts the sandbox if need be and runs the program; MachineError if it cannot be had or reached."""
        if self._sandbox is None:
            self._create()
        done = self.run(argv)
        if done.returncode == FAILED:
            raise MachineError(f"the sandbox is not reached: {last_line(done.errors)}", "run it again")
        return done

    def _create(self) -> None:
        import modal

        target = self._target
        # The image is built while the sandbox is created: until then the file of pins has to lie here.
        with tempfile.TemporaryDirectory(prefix="gdnbench-") as folder:
            try:
                self._sandbox = modal.Sandbox.create(
                    app=modal.App.lookup(APP, create_if_missing=True),
                    image=self._image(modal, Path(folder)),
                    gpu=_UPGRADED.get(target.gpu, target.gpu),
                    timeout=target.timeout_s,
                    idle_timeout=min(IDLE_S, target.timeout_s),
                )
            except Exception as error:  # of Modal's own classes, of gRPC's and of sockets
                raise MachineError(
                    f"Modal gives no sandbox with a GPU {target.gpu}: {_first_line(error)}",
                    "is there an account here (modal setup), and are `gpu` and `image` in gdnbench.toml Modal's?",
                ) from error

    def _image(self, modal: Any, folder: Path) -> Any:
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        packages = self._wanted.packages
        if self._target.image:
            # With an interpreter of its own choice it is taken as it is.
            image = modal.Image.from_registry(self._target.image, **({"add_python": own} if packages else {}))
        else:
            image = modal.Image.debian_slim(python_version=own)
        if not packages:
            return image
        if not self._wanted.constraints:
            return image.pip_install(*packages)
        pins = folder / "constraints.txt"
        pins.write_text(self._wanted.constraints, encoding="utf-8")
        image = image.add_local_file(pins, _CONSTRAINTS, copy=True)
        return image.pip_install(*packages, extra_options=f"--constraint {_CONSTRAINTS}")

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts the program in the sandbox, by a process here."""
        command = [*PYTHON, "-m", "gdnbench.remote.sandbox_exec", self._sandbox.object_id, *argv]
        return start(command, environment={"PYTHONPATH": python_path()}, **streams)

    def close(self) -> None:
        """Terminates the sandbox, and warns if that fails: it costs money."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        try:
            sandbox.terminate()
        except Exception as error:  # as in `_create`
            sys.stderr.write(
                f"warning: sandbox {sandbox.object_id} could not be terminated: {_first_line(error)}; "
                f"Modal ends it when it has been idle for {IDLE_S} s\n"
            )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def shell(script: str, *arguments: str) -> list[str]:
    """Returns a POSIX shell's script as a program; its arguments are `$1` and so on, whatever is in them."""
    return ["sh", "-c", script, "gdnbench", *arguments]


def last_line(text: str) -> str:
    """Returns the last line that says something, for a message: tar ends with one that does not."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _CLOSING.search(line)]
    return lines[-1] if lines else "it gave no reason"
