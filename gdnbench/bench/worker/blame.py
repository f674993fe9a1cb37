"""An exception while measuring costs the case that was being measured; the others go on in a new worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gdnbench.bench.events import Channel, Examined, Step
from gdnbench.bench.worker.device import WorkerDevice, is_alive
from gdnbench.model import Status
from gdnbench.raised import tell_raised

Begin = Callable[[Step], None]
"""Announces a step to the parent."""


@contextmanager
def blaming(channel: Channel, device: WorkerDevice, roots: Sequence[str]) -> Iterator[Begin]:
    """Tells the parent of a case that raises, and swallows the exception; the worker is to end then.

    Args:
        channel: to the parent.
        device: where the case runs.
        roots: the catalog's folders, of whose files the line is told.

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
        channel.send(Examined(case_id, status, tell_raised(error, *map(Path, roots))))
