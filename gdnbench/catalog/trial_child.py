"""The child that tries declarations: `python -P -m gdnbench.catalog.trial_child JOB.json LIMIT_S`.

It forks a process for each, which runs it and calls its functions as commands do, and writes what is wrong with each
beside the job, in `JOB.answer`: texts that are empty where nothing is.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TextIO

from gdnbench.catalog.declaration import place_of, run_declaration
from gdnbench.catalog.load import with_stored_suites
from gdnbench.model.kernel import CudaKernel, Kernel, TensorMap, TritonKernel
from gdnbench.model.workload import Workload
from gdnbench.process.command import describe_exit
from gdnbench.process.worker import die_with_parent

_DUMPED_AT = 0.9
"""Of the limit, when a fork writes down where it is."""

_MEMORY_BYTES = 4 << 30
"""A declaration imports nothing heavy; what fills the memory would take the machine with it."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.01
_MOST_TEXT = 1 << 15  # bytes, which a pipe holds unread


class TrialRequest(NamedTuple):
    """A declaration to try; `op` is the content of a kernel's `op.py`, empty for none that may be run."""

    path: Path
    content: bytes
    op: bytes


def main(job: Path, limit_s: float) -> None:
    """Tries all declarations of a job."""
    die_with_parent()
    _limit(resource.RLIMIT_DATA, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    problems: dict[Path, str] = {}
    for name, *contents in json.loads(job.read_text()):
        path, (content, op) = Path(name), map(base64.b64decode, contents)
        is_op_wrong = problems.get(path.parent.parent / "op.py")
        problems[path] = try_in_fork(TrialRequest(path, content, b"" if is_op_wrong else op), limit_s)
    job.with_suffix(".answer").write_text(json.dumps(list(problems.values())))


def _limit(what: int, most: int) -> None:
    allowed = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if allowed == resource.RLIM_INFINITY else min(most, allowed), allowed))


def try_in_fork(request: TrialRequest, limit_s: float) -> str:
    """Runs a declaration in a fork, and returns why it may not be run in a process that is to go on."""
    receiving, sending = os.pipe()
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        fork = os.fork()
        if not fork:
            _be_fork(request, limit_s, log, sending)
        os.close(sending)
        code = _wait(fork, limit_s)
        with suppress(ProcessLookupError):
            os.killpg(fork, signal.SIGKILL)
        if code is None:
            os.waitpid(fork, 0)
        os.set_blocking(receiving, False)
        with os.fdopen(receiving, "rb", buffering=0) as pipe:
            answer = pipe.read(_MOST_TEXT + 1) or b""
        log.seek(0)
        at = re.search(rf'File ".*{re.escape(request.path.name)}", line (\d+)', log.read())
    place = f"{request.path.name}:{at[1]}" if at else request.path.name
    if code is None:
        return f"{place}: does not come to its end in {limit_s:g} s; mend it, or `touch` it to have it tried again"
    if code or not answer:
        return f"{place}: ends the process that runs it ({describe_exit(code)})"
    return answer[1:].decode(errors="replace")


def _wait(fork: int, limit_s: float) -> int | None:
    deadline, pause_s = time.monotonic() + limit_s, _FIRST_PAUSE_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(fork, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return None


def _be_fork(request: TrialRequest, limit_s: float, log: TextIO, sending: int) -> None:
    """Tries the declaration, sends what is wrong behind a byte that says that it came to its end, and ends."""
    try:
        os.setpgid(0, 0)
        die_with_parent()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        faulthandler.enable(log)
        faulthandler.dump_traceback_later(_DUMPED_AT * limit_s, file=log)
        problem = find_problem(request, Forks())
        faulthandler.cancel_dump_traceback_later()
        os.write(sending, b"." + problem.encode(errors="replace")[:_MOST_TEXT])
        os._exit(0)
    finally:
        os._exit(1)


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
    threads, before, path = threading.active_count(), forks.count, request.path
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
    """Calls a declaration's functions at its op's workloads; errors are swallowed, SystemExit is `_EndsError`."""
    calls: list[Callable[[Workload], object]] = []
    path = request.path
    try:
        if path.name == "op.py":
            op = with_stored_suites(module.op, path.parent)
            calls += filter(None, [op.flops, op.least_bytes, op.copied_bytes, *op.derived.values()])
        else:
            folder = path.parent.parent
            op = with_stored_suites(run_declaration(folder / "op.py", request.op).op, folder)
            kernel = module.kernel
            calls += [kernel.check, *_launch_functions(kernel)]
        workloads = dict.fromkeys([op.default, *op.suite_workloads])
    except Exception:  # reported by the loader
        return
    for workload, call in product(workloads, calls):
        try:
            call(workload)
        except Exception:  # reported by the call
            continue
        except SystemExit as stop:
            raise _EndsError(stop) from stop


class _EndsError(BaseException):
    """A function of a declaration raised SystemExit."""


def _launch_functions(kernel: Kernel) -> list[Callable[[Workload], object]]:
    launches = kernel.launches if isinstance(kernel, CudaKernel | TritonKernel) else ()
    names = ("grid", "block", "shared_bytes", "warps", "stages")
    functions = [getattr(launch, name) for launch in launches for name in names if hasattr(launch, name)]
    arguments = (each for launch in launches for each in getattr(launch, "arguments", None) or ())
    functions += [each.box for each in arguments if isinstance(each, TensorMap) and callable(each.box)]
    params = kernel.resolve({})
    return [lambda workload, function=function: function(workload, params) for function in functions]  # type: ignore[misc]


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
