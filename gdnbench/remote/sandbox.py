"""A sandbox of Modal's (modal.com): a container with a GPU that lives as long as one command of gdnbench's.

Modal's client gives a program's streams as objects, not as descriptors. So a program there is started as one is by
`ssh`: by a process here, `gdnbench.remote.sandbox_exec`, whose own streams and exit code are the program's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import Any, Unpack

from gdnbench.errors import MachineError
from gdnbench.process.command import PYTHON, Completed, Streams, start
from gdnbench.process.worker import python_path
from gdnbench.remote.host import last_line, run_there
from gdnbench.remote.sandbox_exec import FAILED
from gdnbench.remote.targets import ModalTarget

APP = "gdnbench"
"""The app of the user's workspace that the sandboxes belong to."""

IDLE_S = 300
"""Seconds without a program after which Modal ends a sandbox that a killed gdnbench has left."""

_CONSTRAINTS = "/gdnbench/constraints.txt"
_UPGRADED = {"H100": "H100!"}
"""Models in whose place Modal may give a better one, and its spelling that forbids it."""


@dataclass(frozen=True)
class Packages:
    """What an image is to have.

    Attributes:
        wanted: requirements, as pip takes them; none for an image that has an interpreter with them.
        constraints: the text of a file of pins, as pip takes it; empty for none.
    """

    wanted: Sequence[str] = ()
    constraints: str = ""


class ModalHost:
    """A sandbox, started when it is first connected to, and terminated at the end.

    Args:
        target: its table.
        packages: what its image is to have.

    Raises:
        MachineError: if Modal's client is not installed here.
    """

    name = "Modal"
    python = "python"

    def __init__(self, target: ModalTarget, packages: Packages) -> None:
        if find_spec("modal") is None:
            raise MachineError("a target of kind modal needs the package modal", "pip install 'gdnbench[modal]'")
        self._target = target
        self._packages = packages
        self._sandbox: Any = None

    def connect(self, argv: Sequence[str]) -> Completed:
        """Starts the sandbox, unless it is there, and runs the program in it.

        Raises:
            MachineError: if Modal gives no sandbox, or it cannot be reached.
        """
        if self._sandbox is None:
            self._create()
        done = run_there(self, argv)
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
        wanted = self._packages.wanted
        if self._target.image:
            # With an interpreter of its own choice it is taken as it is.
            image = modal.Image.from_registry(self._target.image, **({"add_python": own} if wanted else {}))
        else:
            image = modal.Image.debian_slim(python_version=own)
        if not wanted:
            return image
        if not self._packages.constraints:
            return image.pip_install(*wanted)
        pins = folder / "constraints.txt"
        pins.write_text(self._packages.constraints, encoding="utf-8")
        image = image.add_local_file(pins, _CONSTRAINTS, copy=True)
        return image.pip_install(*wanted, extra_options=f"--constraint {_CONSTRAINTS}")

    def start(self, argv: Sequence[str], **streams: Unpack[Streams]) -> Popen[bytes]:
        """Starts it in the sandbox, by a process here."""
        # -P: a folder that commands are given in may have a `modal.py`.
        command = [*PYTHON, "-m", "gdnbench.remote.sandbox_exec", self._sandbox.object_id, *argv]
        return start(command, environment={"PYTHONPATH": python_path()}, **streams)

    def close(self) -> None:
        """Terminates the sandbox, and says so where that fails: it costs money."""
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
