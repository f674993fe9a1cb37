"""The worker process: `python -m gdnbench.bench.worker TASK.json EVENTS_FD`."""

from __future__ import annotations

import ctypes
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from gdnbench.bench.events import Channel, Refused, Started, Step
from gdnbench.bench.task import Phase, Task
from gdnbench.errors import GdnbenchError

PR_SET_PDEATHSIG = 1
START_LIMIT_S = 180.0  # torch from a cold network disk


def main(arguments: list[str]) -> int:
    """Does one task; 0 unless the device or a library is out of reach."""
    _die_with_parent()
    task, channel = Task.read(Path(arguments[0])), Channel(int(arguments[1]))
    channel.send(Step("", "load torch", START_LIMIT_S))
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


def _die_with_parent() -> None:
    """A parent that is killed cannot stop its worker, and a kernel that hangs would keep the GPU for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(task: Task) -> Started:
    import torch

    if task.device == "cpu":
        return Started("cpu")
    device = torch.cuda.get_device_properties(0)
    return Started(device.name, device.multi_processor_count, device.L2_cache_size)


def _work(task: Task, channel: Channel) -> None:
    match task.phase:
        case Phase.EXAMINE:
            from gdnbench.bench.worker.examine import examine_all

            examine_all(task, channel)
        case Phase.INTERPRET:
            from gdnbench.bench.worker.interpret import interpret_all

            interpret_all(task, channel)
        case Phase.MEASURE:
            choose_timer(task)(task, channel)


def choose_timer(task: Task) -> Callable[[Task, Channel], None]:
    """The timer of a task; only its own libraries are loaded."""
    match task.clock:
        case "cupti":
            from gdnbench.bench.worker.cupti import measure_all
        case "graph":
            from gdnbench.bench.worker.graph import measure_all
        case None if task.device == "cuda":
            from gdnbench.bench.worker.nvbench import measure_all
        case None:
            from gdnbench.bench.worker.cpu import measure_all
    return measure_all


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
