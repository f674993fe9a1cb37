"""The jobs that a machine keeps: what a job left there whose connection was cut, and who takes it up."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdnbench.elsewhere.job import OUT
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.places import RESULTS
from gdnbench.store.find import list_runs
from gdnbench.store.folder import JOURNAL, PARTIAL
from gdnbench.store.info import read_info

_LOCK = "lock"
_PATIENCE_S = 60.0  # for a job that is being stopped: it writes what it has
_POLL_S = 0.2


@contextmanager
def held(job: Path) -> Iterator[None]:
    """Holds a job's folder for this process: no other one works in it, or takes from it.

    Raises:
        UsageError: if another process keeps it longer than that.
    """
    descriptor = os.open(job / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for(descriptor, job)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, job: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise UsageError(f"the job {job.name} is still running there", "wait for it to end") from error
            time.sleep(_POLL_S)
        else:
            return


def take_up(out: Path, wanted: str) -> Path:
    """The run that a job goes on with, in the job's own folder: sent along, or left by another job of this machine.

    Of a run that is in both places the one that got further is taken.

    Args:
        out: the job's folder; its neighbours' are beside it.
        wanted: the run's id, or its start.

    Raises:
        UnknownNameError: if it is in neither place.
        UsageError: if another job is measuring it.
    """
    own = _runs_called(out, wanted)
    for job in sorted(out.parent.parent.iterdir(), reverse=True):
        if job == out.parent or not _runs_called(job / OUT, wanted):
            continue
        with held(job):
            found = _runs_called(job / OUT, wanted)
            if found and (not own or _reach(found[0]) > _reach(own[0])):
                own = [_moved(found[0], out / RESULTS, replaced=own)]
            elif found:
                shutil.rmtree(found[0])
            is_empty = not list_runs(job / OUT / RESULTS, stopped=True)
        if is_empty:  # a run on several cards leaves one of each
            shutil.rmtree(job, ignore_errors=True)
    if not own:
        raise UnknownNameError(f"no run {wanted} here, and none is kept there", "gdnbench runs lists those here")
    return own[0]


def _runs_called(out: Path, wanted: str) -> list[Path]:
    """Newest first."""
    runs = list_runs(out / RESULTS, stopped=True)[::-1]
    exact = [run for run in runs if run_id(run) == wanted]
    return exact or [run for run in runs if run_id(run).startswith(wanted)]


def run_id(folder: Path) -> str:
    """The id of the run in a folder, which is hidden while it is measured."""
    hidden = PARTIAL.fullmatch(folder.name)
    return hidden["run_id"] if hidden else folder.name


def _reach(run: Path) -> tuple[bool, int]:
    """How far a run got: a whole one furthest, else by its journal's length in bytes."""
    journal = run / JOURNAL
    return read_info(run).complete, journal.stat().st_size if journal.exists() else 0


def _moved(run: Path, results: Path, *, replaced: list[Path]) -> Path:
    for other in replaced:
        shutil.rmtree(other)
    results.mkdir(parents=True, exist_ok=True)
    return run.rename(results / run.name)
