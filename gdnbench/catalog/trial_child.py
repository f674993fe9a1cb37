"""The child that tries declarations: `python -P -m gdnbench.catalog.trial_child LIMIT_S FD`, a worker.

It is sent them one by one, a line of JSON each, runs each, calls its functions as commands do, and says what is wrong
with it. Where one does not come to its end within the limit, or crashes, its log has the line.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TextIO

from gdnbench.catalog.declaration import place_of, run_declaration
from gdnbench.catalog.load import with_stored_suites
from gdnbench.model.kernel import CudaKernel, Grid, Kernel, PerCase, TritonKernel
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.channel import Channel
from gdnbench.process.worker import die_with_parent, take_requests

_TOLD_AT = 0.9
"""Of the limit, when the child writes down where it is."""

_MEMORY_BYTES = 4 << 30
"""A declaration imports nothing heavy; what fills the memory would take the machine with it."""


@dataclass(frozen=True)
class TrialAnswer:
    """The child is ready for the next declaration.

    `problem` is why the last may not be run in a process that is to go on; empty if it may, though it raises an error.
    """

    problem: str = ""


ANSWERS = (TrialAnswer,)


@dataclass(frozen=True)
class TrialRequest:
    """A declaration to try; `op` is the content of a kernel's `op.py`, which passed; empty for none."""

    path: str
    content: bytes
    op: bytes = b""

    @property
    def encoded(self) -> str:
        """A line of JSON."""
        return json.dumps([self.path, *(base64.b64encode(each).decode() for each in (self.content, self.op))])

    @classmethod
    def decoded(cls, line: str) -> TrialRequest:
        """The inverse of `encoded`."""
        path, *contents = json.loads(line)
        return cls(path, *map(base64.b64decode, contents))


def main(arguments: list[str]) -> None:
    """Tries what it is sent, until there is no more."""
    die_with_parent()
    limit_s, descriptor = arguments
    requests, channel = take_requests(), Channel[TrialAnswer](int(descriptor))
    log = _take_log()
    faulthandler.enable(log)
    _limit(resource.RLIMIT_DATA, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    forks = Forks()
    channel.send(TrialAnswer())
    for line in requests:
        faulthandler.dump_traceback_later(_TOLD_AT * float(limit_s), file=log)
        problem = find_problem(TrialRequest.decoded(line), forks)
        faulthandler.cancel_dump_traceback_later()
        channel.send(TrialAnswer(problem))


def _limit(what: int, most: int) -> None:
    allowed = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if allowed == resource.RLIM_INFINITY else min(most, allowed), allowed))


def _take_log() -> TextIO:
    """Standard error, moved to where nothing but a fault is told; what declarations print goes nowhere."""
    log = os.fdopen(os.dup(2), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return log


class Forks:
    """Counts the forks of this process by Python code, and ends those that go on with its work."""

    def __init__(self) -> None:
        self.count = 0
        self._own = os.getpid()
        os.register_at_fork(after_in_parent=self._add)

    def _add(self) -> None:
        self.count += 1

    def end_copy(self) -> None:
        """Ends this process if it is a fork."""
        if os.getpid() != self._own:
            os._exit(0)


def find_problem(request: TrialRequest, forks: Forks) -> str:
    """Runs a declaration; returns why it may not be run in a process that is to go on: an error is no such reason."""
    threads, before, path = threading.active_count(), forks.count, Path(request.path)
    try:
        _call_functions(run_declaration(path, request.content), request)
    except MemoryError:
        return f"{path.name}: takes more than {_MEMORY_BYTES >> 30} GiB of memory"
    except (Exception, SystemExit):  # who runs it tells it
        pass
    except _EndsError as error:
        return f"{place_of(error, path)}: a function of it raises SystemExit"
    except BaseException as error:
        return f"{place_of(error, path)}: {type(error).__name__}: {error}".strip(": ")
    finally:
        forks.end_copy()
    if forks.count > before:
        return f"{path.name}: forks the process that runs it"
    if threading.active_count() > threads:
        return f"{path.name}: leaves a thread running"
    return ""


def _call_functions(module: ModuleType, request: TrialRequest) -> None:
    """Calls the functions that a declaration made, at the workloads of its op's suites, as commands do.

    Raises what they raise but for errors; SystemExit as `_EndsError`.
    """
    calls: list[Callable[[Workload], object]] = []
    path = Path(request.path)
    try:
        if path.name == "op.py":
            op = with_stored_suites(module.op, path.parent)
            calls += filter(None, [op.flops, op.least_bytes, op.copied_bytes, *op.derived.values()])
        else:
            op = _op(path.parent.parent, request.op)
            kernel = module.kernel
            calls += [kernel.check, *(_at_defaults(each, kernel) for each in _launch_functions(kernel))]
        workloads = dict.fromkeys([op.default, *op.suite_workloads])
    except Exception:  # told by who loads it
        return
    for workload, call in product(workloads, calls):
        try:
            call(workload)
        except Exception:  # told where it is called
            continue
        except SystemExit as stop:
            raise _EndsError(stop) from stop


class _EndsError(BaseException):
    """A function of a declaration raised SystemExit."""


@cache
def _op(folder: Path, content: bytes) -> Op:
    op = run_declaration(folder / "op.py", content).op
    return with_stored_suites(op, folder)


def _launch_functions(kernel: Kernel) -> list[PerCase | Grid]:
    launches = kernel.launches if isinstance(kernel, CudaKernel | TritonKernel) else ()
    names = ("grid", "block", "shared_bytes", "warps", "stages")
    return [getattr(launch, name) for launch in launches for name in names if hasattr(launch, name)]


def _at_defaults(function: PerCase | Grid, kernel: Kernel) -> Callable[[Workload], object]:
    params = kernel.resolve({})
    return lambda workload: function(workload, params)


if __name__ == "__main__":
    main(sys.argv[1:])
