"""Workers that are forked from a process which has imported torch, for commands that run in the tests' own process.

Each is a process of its own, with its asker's environment, folder and paths, as one that is started is; what is saved
are the imports of torch and of all else that workers import, two seconds of a core, some hundred times. A command that
a test starts as a process forks its workers likewise if `FORKING` is on its path; those of tests of full disks and
of what is left behind have theirs as users do.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from warm_processes import end_warm_parents

from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker

FORKING = (Path(__file__).with_name("forked"), Path(__file__).parent)
"""Folders for the PYTHONPATH of a process whose commands fork their workers."""
VARIABLE = "GDNBENCH_TESTS_FORK_FROM"
"""Has such processes find the folder of sockets and the module that starts workers."""
SUPERVISION = "gdnbench.workers.supervision"
IDLE_S = 240.0
"""If the tests are killed: what they leave behind ends then."""
LIMIT_S = 280.0
"""For a module that interprets kernels."""
_READ_BY_IMPORTS = ("CUDA", "GOMP", "KMP", "MKL", "OMP", "TORCH", "TRITON")


class SuiteParent(WarmParent):
    """The process that forks workers of one environment for all tests, wherever they keep their temporary files.

    Args:
        environment: of the workers, on top of this process's.
        sockets: a folder whose path is short.
    """

    program = (str(Path(__file__).with_name("suite_parent.py")),)

    def __init__(self, environment: Mapping[str, str], sockets: Path) -> None:
        super().__init__(environment, IDLE_S)
        self._read = {
            name: value
            for name, value in sorted({**os.environ, **environment}.items())
            if name.startswith(_READ_BY_IMPORTS)
        }
        self._sockets = sockets

    def _socket_path(self) -> Path:
        """By what torch and Triton read when they are loaded, and no more: a fork takes PYTHONPATH anew."""
        return self._sockets / blake2b(json.dumps(self._read).encode(), digest_size=8).hexdigest()


class ForkedWorkers:
    """Makes workers as `Worker` does, but forks those that see no GPU.

    Args:
        sockets: a folder whose path is short.
    """

    def __init__(self, sockets: Path) -> None:
        self._sockets = sockets

    def __call__(self, module, arguments, kinds, log, environment, *, warm=None):
        """A worker, with the arguments of `Worker`."""
        if not environment["CUDA_VISIBLE_DEVICES"]:
            warm = SuiteParent(environment, self._sockets)
        return Worker(module, arguments, kinds, log, environment, warm=warm)


@contextmanager
def forking() -> Iterator[None]:
    """Until the end of the block this process, and those that it starts, fork workers from the same processes."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="gdnbench-tests-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(VARIABLE, f"{folder}:{SUPERVISION}")
        try:
            yield
        finally:
            end_warm_parents(Path(folder))


def forked_workers() -> ForkedWorkers:
    """What makes workers here: `forking` is in force."""
    return ForkedWorkers(Path(os.environ[VARIABLE].partition(":")[0]))


def interpreted(module: str, *arguments: str) -> list[Any]:
    """The lines of JSON, arrays, that a module of the tests prints in a worker where Triton interprets.

    Its arguments are followed by one that means nothing to it.
    """
    from gdnbench.process.worker import python_path
    from gdnbench.workers.supervision import worker_environment

    tests = f"{python_path()}:{Path(__file__).parent}"
    environment = {**worker_environment(None, interpret=True), "PYTHONPATH": tests}
    with tempfile.TemporaryFile() as log, forked_workers()(module, arguments, (), log, environment) as worker:
        code = worker.end(LIMIT_S)
        log.seek(0)
        printed = log.read().decode()
    assert code == 0, printed
    return [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
