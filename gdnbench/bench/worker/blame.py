"""An exception while measuring is laid at the door of the case at hand; the others go on in a fresh worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdnbench.bench.events import Channel, Examined, Step
from gdnbench.bench.worker.device import WorkerDevice, is_alive
from gdnbench.bench.worker.examine import one_line
from gdnbench.model import Status

Begin = Callable[[Step], None]
"""Announces a step to the parent."""


@contextmanager
def blaming(channel: Channel, device: WorkerDevice) -> Iterator[Begin]:
    """Tells the parent of a case that raises, and swallows the exception; the worker is to end then.

    Raises:
        Exception: what is raised outside any case's step.
    """
    case_id = ""

    def begin(step: Step) -> None:
        nonlocal case_id
        case_id = step.case
        channel.send(step)

    try:
        yield begin
    except Exception as error:
        if not case_id:
            raise
        status = Status.FAILED if is_alive(device) else Status.CRASHED
        channel.send(Examined(case_id, status, one_line(error)))
