"""The worker process: `python -m gdnbench.measure.worker TASK.json EVENTS_FD`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from gdnbench.errors import GdnbenchError
from gdnbench.process.worker import die_with_parent
from gdnbench.store.journal import EventChannel, Refused, Started, StepBegun
from gdnbench.workers.task import Phase, Task

START_LIMIT_S = 180.0  # torch from a cold network disk


def main(arguments: list[str]) -> int:
    """Does one task; returns 0, or 1 if the device or a library cannot be used."""
    die_with_parent()
    task, channel = Task.take(Path(arguments[0])), EventChannel(int(arguments[1]))
    if task.phase is Phase.MEASURE:
        # All code is compiled by now; torch.compile would start a process for every core while kernels are timed.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    channel.send(StepBegun("", "load torch", START_LIMIT_S))
    try:
        channel.send(_start(task))
        _work(task, channel)
    except GdnbenchError as error:
        channel.send(Refused(error.message, error.hint))
        return 1
    except Exception as error:
        traceback.print_exc()
        channel.send(
            Refused(f"{type(error).__name__}: {error}", "the worker's log in the run's folder has the details")
        )
        return 1
    return 0


def _start(task: Task) -> Started:
    with _no_collection():
        import torch

    if task.device == "cpu":
        return Started("cpu")
    device = torch.cuda.get_device_properties(0)
    return Started(device.name, device.multi_processor_count, device.L2_cache_size)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disables garbage collection: torch's import makes 180,000 lasting objects and spends a fifth of its time on them.

    Later collections skip these objects, too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _work(task: Task, channel: EventChannel) -> None:
    match task.phase:
        case Phase.EXAMINE:
            from gdnbench.verify.examine import examine_all

            examine_all(task, channel)
        case Phase.INTERPRET:
            from gdnbench.verify.interpret import interpret_all

            interpret_all(task, channel)
        case Phase.MEASURE:
            choose_timer(task)(task, channel)


def choose_timer(task: Task) -> Callable[[Task, EventChannel], None]:
    """The timer of a task; only that timer's libraries are loaded."""
    match task.clock:
        case "cupti":
            from gdnbench.measure.worker.cupti import measure_all
        case "graph":
            from gdnbench.measure.worker.graph import measure_all
        case None if task.device == "cuda":
            from gdnbench.measure.worker.nvbench import measure_all
        case None:
            from gdnbench.measure.worker.cpu import measure_all
    return measure_all


if __name__ == "__main__":
    ended = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)  # skips the exit handlers of libraries: torch.compile's waits 3 s for its processes
