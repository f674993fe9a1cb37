"""The main function of a worker process, `python -m PACKAGE TASK.json EVENTS_FD`, and its import of torch."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from gdnbench.errors import GdnbenchError
from gdnbench.model.kernel import Device
from gdnbench.process.worker import die_with_parent
from gdnbench.store.journal import EventChannel, Refused, Started, StepBegun

START_LIMIT_S = 180.0  # torch from a cold network disk

T = TypeVar("T")


def run_worker(read: Callable[[Path], T], work: Callable[[T, EventChannel], None]) -> NoReturn:
    """Does the task that `read` finds, and ends the process: exit code 1 if the device or a library cannot be used."""
    die_with_parent()
    task, channel = read(Path(sys.argv[1])), EventChannel(int(sys.argv[2]))
    channel.send(StepBegun("", "load torch", START_LIMIT_S))
    code = 1
    try:
        work(task, channel)
        code = 0
    except GdnbenchError as error:
        channel.send(Refused(error.message, error.hint))
    except Exception as error:
        traceback.print_exc()
        hint = "the worker's log in the run's folder has the details"
        channel.send(Refused(f"{type(error).__name__}: {error}", hint))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # skips the exit handlers of libraries: torch.compile's waits 3 s for its processes


def load_torch(device: Device) -> Started:
    """Imports torch without garbage collection, and describes the device.

    The import makes 180,000 lasting objects and would spend a fifth of its time on them; later collections skip them.
    """
    gc.disable()
    try:
        import torch
    finally:
        gc.freeze()
        gc.enable()
    if device == "cpu":
        return Started("cpu")
    properties = torch.cuda.get_device_properties(0)
    return Started(properties.name, properties.multi_processor_count, properties.L2_cache_size)
