"""The worker that times: `python -m gdnbench.measure.worker TASK.json EVENTS_FD`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from gdnbench.store.journal import EventChannel
from gdnbench.workers.task import Task, await_task, load_torch, run_worker


def measure(task: Task, channel: EventChannel) -> None:
    """Measures by the task's timer."""
    # All code is compiled by now; torch.compile would start a process for every core while kernels are timed. The
    # process that this one was forked from may have read the variable.
    threads = os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if "torch._inductor.config" in sys.modules:
        from torch._inductor import config

        config.compile_threads = int(threads)
    task = await_task(task, channel, choose_timer)
    channel.send(load_torch(task.device))
    choose_timer(task)(task, channel)


def choose_timer(task: Task) -> Callable[[Task, EventChannel], None]:
    """The function that measures a task; only its timers' libraries are loaded."""
    match task.clock:
        case "graph":
            from gdnbench.measure.worker.graph import measure_all
        case "events":
            from gdnbench.measure.worker.events import measure_all
        case _ if task.device == "cuda":
            from gdnbench.measure.worker.gpu import measure_all
        case _:
            from gdnbench.measure.worker.cpu import measure_all
    return measure_all


if __name__ == "__main__":
    run_worker(Task.take, measure)
