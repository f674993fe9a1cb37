"""A laptop with targets in its `gdnbench.toml`, and the ssh server that one of them is reached through."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from faults import ADVERSARIAL, FORKING, LIMIT_S, LONG, REPOSITORY, Done, answer, finish, python_path, wait_for

WORKDIR = "it's the workdir"
SHORT = ("--gpu", "cpu", "--rounds", "3", "--samples", "2", "--margin", "0.9", "--shape", "B=1")
HOST = "gpu1"
ROOTS = {"GDNBENCH_KERNELS": str(ADVERSARIAL / "cpu")}


@dataclass(frozen=True)
class Laptop:
    """A project's folder, from which commands are sent.

    Attributes:
        home: the folder.
        workdir: the target's, as this machine reaches it.
        environment: for the commands here.
    """

    home: Path
    workdir: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.home / "results"

    @property
    def runs(self) -> list[Path]:
        return sorted(self.results.iterdir()) if self.results.exists() else []

    @property
    def jobs(self) -> list[Path]:
        return [path for path in (self.workdir / "jobs").iterdir() if not path.name.startswith(".")]

    @property
    def sources(self) -> set[str]:
        return {path.name for path in (self.workdir / "sources").iterdir()}

    def __call__(self, *words: str, **environment: str) -> Done:
        """Runs a command in the process of the tests."""
        return answer(*words, folder=self.home, COLUMNS="500", **{**self._state, **self.environment, **environment})

    def start(self, *words: str, **options) -> subprocess.Popen[str]:
        """Starts a command in a process of its own, for one that is stopped by a signal."""
        return subprocess.Popen(
            [sys.executable, "-m", "gdnbench", *words],
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": python_path(REPOSITORY),
                "COLUMNS": "500",
                **self._state,
                **self.environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def start_slow(self, target: str) -> subprocess.Popen[str]:
        """Starts a run of a slow kernel on a target."""
        words = ("run", "test-slow", "--gpu", "cpu", "--baseline", "test-slow", *LONG, "--shape", "B=1")
        return replace(self, environment={**self.environment, **ROOTS}).start(*words, "--on", target, "--json")

    def finish(self, process: subprocess.Popen[str]) -> Done:
        return finish(process, LIMIT_S)

    def configure(self, text: str) -> None:
        own = self.home / "config" / "gdnbench" / "gdnbench.toml"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(text)

    @property
    def _state(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.home / "state"), "XDG_CONFIG_HOME": str(self.home / "config")}


def far_results(laptop: Laptop) -> Path | None:
    """The folder of runs of the one job there is, once it is there."""
    found = [job / "out" / "results" for job in laptop.jobs] if (laptop.workdir / "jobs").exists() else []
    return found[0] if found and found[0].exists() else None


def has_measured(laptop: Laptop, number: int, process: subprocess.Popen[str]):
    """Whether a round of the one job's run is in its journal; the process is the command that sent it."""
    wanted = f'"kind":"Sampled","round":{number},'

    def is_there() -> bool:
        assert process.poll() is None, finish(process).err
        results = far_results(laptop)
        return bool(results) and any(wanted in path.read_text() for path in results.glob(".*/journal.jsonl"))

    return is_there


def is_alone(laptop: Laptop) -> bool:
    """Whether no process works in the target's folder."""
    text = str(laptop.workdir).encode()
    return not any(text in line for line in _command_lines())


def _command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            continue


class SshServer:
    """An ssh server, and an `ssh` that knows it by the name `gpu1`.

    Args:
        folder: an empty one for keys, configuration and the far home folder.
    """

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("asyncssh", reason="asyncssh is not installed")
        program = shutil.which("ssh")
        if program is None:
            pytest.skip("there is no ssh here")
        import asyncssh

        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        for name in ("host", "user"):
            key = asyncssh.generate_private_key("ssh-ed25519")
            key.write_private_key(str(folder / name))
            (folder / name).chmod(0o600)
            key.write_public_key(str(folder / f"{name}.pub"))
        (folder / "bin").mkdir()
        stock = folder / "bin" / "ssh"
        stock.write_text(f'#!/bin/sh\nexec {program} -F {shlex.quote(str(folder / "config"))} "$@"\n')
        stock.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        """Listens, on a port of its own."""
        (self.folder / "port").unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("ssh_server.py")), str(self.folder)],
            env={**os.environ, **environment},
            stderr=subprocess.DEVNULL,
        )
        port = wait_for(lambda: (self.folder / "port").exists() and (self.folder / "port").read_text(), "the server")
        options = {
            "HostName": "127.0.0.1",
            "Port": port,
            "User": "somebody",
            "IdentityFile": f'"{self.folder}/user"',
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        lines = "".join(f"  {name} {value}\n" for name, value in options.items())
        (self.folder / "config").write_text(f"Host {HOST}\n{lines}")

    def kill(self) -> None:
        """Cuts every connection."""
        if self.process:
            self.process.kill()
            self.process.wait()

    @property
    def path(self) -> str:
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


@contextmanager
def ssh_laptop(folder: Path, **environment: str):
    """A laptop whose target `lab` is an ssh server on this machine, with these variables, and the server."""
    (folder / "server").mkdir()
    (folder / "project").mkdir()
    server = SshServer(folder / "server")
    laptop = Laptop(folder / "project", server.home / WORKDIR, {"PATH": server.path})
    laptop.configure(lab())
    server.start(**environment)
    try:
        yield laptop, server
    finally:
        server.kill()


def lab(**more: str) -> str:
    """The table of the target `lab`."""
    python_paths = python_path(ADVERSARIAL, *FORKING)
    lines = "".join(f"{key} = {value}\n" for key, value in more.items())
    return f"""
[targets.lab]
kind = "ssh"
host = "{HOST}"
gpus = ["h200"]
python = "{sys.executable}"
workdir = "~/{WORKDIR}"
environment = {{ PYTHONPATH = "{python_paths}" }}
{lines}"""
