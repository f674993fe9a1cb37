"""Runs workers, several at once if they are independent, and turns their deaths into outcomes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from gdnbench.codegen.cache import byte_code_folder
from gdnbench.errors import MachineError
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.channel import ForgedMessageError
from gdnbench.process.command import GRACE_S
from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker, python_path
from gdnbench.store.journal import KINDS, Event, Examined, Refused, StepBegun

GPU_WORKER_THREADS = "4"


def worker_environment(gpu: Gpu | None, *, interpret: bool = False) -> dict[str, str]:
    """Environment variables of a worker beside this process's: the GPU that it sees, and this gdnbench's path.

    No GPU is visible if it is None; `interpret` runs Triton kernels in Triton's interpreter.
    """
    return {
        # By default torch spins a thread on every core while the GPU works: several runs on a host then share one core.
        **({"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", GPU_WORKER_THREADS)} if gpu else {}),
        # By UUID: by default CUDA numbers GPUs by speed, and NVML by bus.
        "CUDA_VISIBLE_DEVICES": gpu.uuid if gpu else "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONPATH": python_path(),
        **(_byte_code() if gpu else {}),
        **({"TRITON_INTERPRET": "1"} if interpret else {}),
    }


def _byte_code() -> dict[str, str]:
    """Variables that let workers keep byte code where Python may not write it beside the sources, as in many images.

    Otherwise each of the seven workers of a run would compile torch again, which takes 7 s.
    """
    if not sys.dont_write_bytecode:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": sys.pycache_prefix or str(byte_code_folder())}


LOG_LINES = 3
Part = Callable[[threading.Event], None]
"""A callable that supervises workers until it is done, or the event is set."""


class WorkerEnd(Enum):
    """How a worker ended."""

    FINISHED = auto()
    DIED = auto()
    HUNG = auto()
    FORGED = auto()  # it sent a message that is not gdnbench's


@dataclass(frozen=True)
class WorkerOutcome:
    """How a worker ended, with its case (empty if none), its step, and the reason for the case's row."""

    end: WorkerEnd
    case: str = ""
    reason: str = ""
    step: str = ""

    @property
    def loss(self) -> Examined | None:
        """The failure of the case that the worker was on, or None if the worker finished."""
        if self.end is WorkerEnd.FINISHED:
            return None
        return Examined(self.case, _STATUSES[self.end], self.reason)


_STATUSES = {WorkerEnd.DIED: Status.CRASHED, WorkerEnd.HUNG: Status.TIMED_OUT, WorkerEnd.FORGED: Status.TAMPERS}


class Writable(Protocol):
    """A worker's task."""

    def write(self, path: Path) -> None:
        """Writes the task for a worker to read."""


def supervise(
    task: Writable,
    folder: Path,
    name: str,
    environment: Mapping[str, str],
    on_event: Callable[[Event], None],
    stop: threading.Event | None = None,
    module: str = "gdnbench.measure.worker",
    warm: WarmParent | None = None,
) -> WorkerOutcome:
    """Runs a worker to its end and returns how it ended.

    A worker that dies or hangs outside any case is the machine's fault, not a case's. Raises MachineError if the worker
    refused the task, or died, hung or sent a forged message outside any case, and CancelledError if it was stopped.

    Args:
        name: of the task file and the log, in the folder.
        environment: variables beside this process's.
        stop: set by another thread to cancel the work.
        module: the worker's module, as `python -m` takes it.
        warm: the process to fork it from, with that process's environment; None starts a new one.
    """
    task_file = folder / f"{name}.json"
    task.write(task_file)
    with (
        (folder / f"{name}.log").open("w+b") as log,
        Worker(module, [str(task_file)], KINDS, log, environment, warm=warm) as worker,
    ):
        return _Watchdog(worker, on_event).watch(stop)


class _Watchdog:
    """Receives a worker's events and enforces the time limit of each step."""

    def __init__(self, worker: Worker[Event], on_event: Callable[[Event], None]) -> None:
        self._worker = worker
        self._on_event = on_event
        self._step = StepBegun("", "start", GRACE_S)
        self._refused: Refused | None = None
        self._in_step = False

    def watch(self, stop: threading.Event | None) -> WorkerOutcome:
        """Receives events until the worker has ended, or a step exceeds its limit; raises as `supervise`."""
        deadline = time.monotonic() + GRACE_S
        end = WorkerEnd.DIED
        try:
            while event := self._worker.receive(deadline, stop):
                self._take(event)
                deadline = time.monotonic() + self._step.limit_s
        except TimeoutError:
            end = WorkerEnd.HUNG
        except ForgedMessageError:
            end = WorkerEnd.FORGED
        returncode = self._worker.end(GRACE_S if end is WorkerEnd.DIED else 0)
        # A kernel may end its process with exit code 0; a worker that has finished is in no step of a case.
        if end is WorkerEnd.DIED and returncode == 0 and not self._in_step:
            end = WorkerEnd.FINISHED
        return self._outcome(end)

    def _take(self, event: Event) -> None:
        self._in_step = isinstance(event, StepBegun) and bool(event.case)
        if isinstance(event, StepBegun):
            self._step = event
        if isinstance(event, Refused):
            self._refused = event
        self._on_event(event)

    def _outcome(self, end: WorkerEnd) -> WorkerOutcome:
        if self._refused:
            raise MachineError(self._refused.message, self._refused.hint)
        if end is WorkerEnd.FINISHED:
            return WorkerOutcome(end)
        reason = self._reason(end)
        if not self._step.case:
            raise MachineError(f"worker: {reason}", "see `gdnbench doctor`")
        return WorkerOutcome(end, self._step.case, reason, self._step.step)

    def _reason(self, end: WorkerEnd) -> str:
        step = f"step `{self._step.step}`"
        match end:
            case WorkerEnd.HUNG:
                return f"{step} did not end within {self._step.limit_s:.0f} s"
            case WorkerEnd.FORGED:
                return f"{ForgedMessageError()}, in {step}"
            case _:
                tail = " | ".join(line.strip() for line in self._worker.log_tail(LOG_LINES))
                return f"the process died in {step} ({self._worker.describe_end()}){f': {tail}' if tail else ''}"


def run_concurrently(*parts: Part) -> None:
    """Runs the parts at once, each in a thread, and returns when all have ended; a single one runs in this thread.

    Raises what the first failing part raises, and stops the others; no worker outlives a Ctrl-C.
    """
    stop = threading.Event()
    if len(parts) < 2:
        for part in parts:
            part(stop)
        return
    with ThreadPoolExecutor(len(parts)) as threads:
        working = [threads.submit(part, stop) for part in parts]
        try:
            for ended in as_completed(working):
                ended.result()
        except BaseException:
            stop.set()
            raise
