"""Runs workers, several at once if they are independent, and turns their deaths into outcomes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self

from gdnbench.codegen.cache import byte_code_folder
from gdnbench.errors import MachineError
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.channel import ForgedMessageError
from gdnbench.process.command import GRACE_S
from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker, python_path
from gdnbench.store.journal import KINDS, Event, Examined, Refused, Started, StepBegun
from gdnbench.workers.task import START_LIMIT_S, Task

GPU_WORKER_THREADS = "4"


def worker_environment(gpu: Gpu | None, *, interpret: bool = False) -> dict[str, str]:
    """A worker's variables: the GPU it sees, or none, and our path; `interpret` has Triton interpret."""
    threads = GPU_WORKER_THREADS if gpu else "1" if interpret else ""
    return {
        # By default torch spins a thread on every core while the GPU works: several runs on a host then share one core.
        # Interpreters run in NumPy, and what torch does beside them is too small to be shared.
        **({"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)} if threads else {}),
        # By UUID: by default CUDA numbers GPUs by speed, and NVML by bus.
        "CUDA_VISIBLE_DEVICES": gpu.uuid if gpu else "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONPATH": python_path(),
        # Where Python may not write byte code beside the sources, as in many images, each of the seven workers of a run
        # would compile torch again, which takes 7 s.
        **(
            {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": sys.pycache_prefix or str(byte_code_folder())}
            if gpu and sys.dont_write_bytecode
            else {}
        ),
        **({"TRITON_INTERPRET": "1"} if interpret else {}),
    }


LOG_LINES = 3
Part = Callable[[threading.Event], None]
"""A callable that supervises workers until it is done, or the event is set."""


class WorkerEnd(Enum):
    """How a worker ended, with the status of the case that it was on."""

    FINISHED = Status.OK
    DIED = Status.CRASHED
    HUNG = Status.TIMED_OUT
    FORGED = Status.TAMPERS  # it sent a message that is not gdnbench's


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
        return Examined(self.case, self.end.value, self.reason)


MOST_WAITING = 6  # each has 200 MB of its own


class WaitingWorkers:
    """Workers that are started before there are tasks for them: they import what these need, and wait.

    Imports are most of a worker's start. None imports while another times: whoever takes a worker waits until all have
    imported, and until then no time is taken. They are forked from `warm`, so there are none without it, their files go
    to `folder`, and leaving the `with` block kills those that nobody took.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], warm: WarmParent | None) -> None:
        self._folder = folder
        self._environment = environment
        self._warm = warm
        self.begun = 0  # workers, those that were taken included
        self._importing: list[tuple[str, Worker[Event]]] = []
        self._ready: list[tuple[str, Worker[Event]]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, module: str, task: Task, count: int) -> None:
        """Starts so many workers of a module, while cores are left, for a task that says what to import."""
        cores = len(os.sched_getaffinity(0))
        for _ in range(min(count, min(MOST_WAITING, cores - 1) - self.begun) if self._warm else 0):
            file = self._folder / f"{task.phase}-{self.begun}.json"
            task.write(file)
            self.begun += 1
            log = self._stack.enter_context(file.with_suffix(".log").open("w+b"))
            worker = Worker(module, [str(file)], KINDS, log, self._environment, warm=self._warm)
            self._importing.append((module, self._stack.enter_context(worker)))

    def take(self, module: str) -> Worker[Event] | None:
        """A worker of a module that waits for a task's path, None if there is none: those that fail are passed over."""
        deadline = time.monotonic() + START_LIMIT_S
        self._ready += [each for each in self._importing if _has_imported(each[1], deadline)]
        self._importing.clear()
        found = next((each for each in self._ready if each[0] == module and not each[1].has_ended), None)
        if found is None:
            return None
        self._ready.remove(found)
        return found[1]


def _has_imported(worker: Worker[Event], deadline: float) -> bool:
    with suppress(TimeoutError, ForgedMessageError):
        while event := worker.receive(deadline):
            if isinstance(event, Started):
                return True
    worker.close()
    return False


def supervise(
    module: str,
    task: Task,
    folder: Path,
    name: str,
    environment: Mapping[str, str],
    on_event: Callable[[Event], None],
    stop: threading.Event | None = None,
    warm: WarmParent | None = None,
    waiting: WaitingWorkers | None = None,
) -> WorkerOutcome:
    """Runs the worker `python -m module` to its end and returns how it ended.

    Task file and log are named `name`, in the folder; `environment` is added to this process's. The worker is one that
    is `waiting`, or forked from `warm`, or started if that is None, and cancelled when `stop` is set. One that dies or
    hangs outside any case is the machine's fault, not a case's: raises MachineError for that, for a forged message
    outside any case, and if the worker refused the task, and CancelledError if it was stopped.
    """
    task_file = folder / f"{name}.json"
    task.write(task_file)
    with ExitStack() as stack:
        if (worker := waiting.take(module) if waiting else None) is not None:
            worker.tell(str(task_file))
        else:
            log = stack.enter_context((folder / f"{name}.log").open("w+b"))
            worker = Worker(module, [str(task_file)], KINDS, log, environment, warm=warm)
        return _watch(stack.enter_context(worker), on_event, stop)


def _watch(worker: Worker[Event], on_event: Callable[[Event], None], stop: threading.Event | None) -> WorkerOutcome:
    step, in_case = StepBegun("", "start", GRACE_S), False
    refused: Refused | None = None
    deadline = time.monotonic() + step.limit_s
    end = WorkerEnd.DIED
    try:
        while event := worker.receive(deadline, stop):
            in_case = isinstance(event, StepBegun) and bool(event.case)
            step = event if isinstance(event, StepBegun) else step
            refused = event if isinstance(event, Refused) else refused
            on_event(event)
            deadline = time.monotonic() + step.limit_s
    except TimeoutError:
        end = WorkerEnd.HUNG
    except ForgedMessageError:
        end = WorkerEnd.FORGED
    returncode = worker.end(GRACE_S if end is WorkerEnd.DIED else 0)
    if refused:
        raise MachineError(refused.message, refused.hint)
    # A kernel may end its process with exit code 0; a worker that has finished is in no step of a case.
    if end is WorkerEnd.DIED and returncode == 0 and not in_case:
        return WorkerOutcome(WorkerEnd.FINISHED)
    where = f"step `{step.step}`"
    match end:
        case WorkerEnd.HUNG:
            reason = f"{where} did not end within {step.limit_s:.0f} s"
        case WorkerEnd.FORGED:
            reason = f"{ForgedMessageError()}, in {where}"
        case _:
            tail = " | ".join(line.strip() for line in worker.log_tail(LOG_LINES))
            reason = f"the process died in {where} ({worker.describe_end()}){f': {tail}' if tail else ''}"
    if not step.case:
        raise MachineError(f"worker: {reason}", "see `gdnbench doctor`")
    return WorkerOutcome(end, step.case, reason, step.step)


def run_concurrently(*parts: Part) -> None:
    """Runs parts in threads, or a single one in this; the first failure stops the others and is raised."""
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
