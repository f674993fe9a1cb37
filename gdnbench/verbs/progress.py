"""Live progress on stderr: the phase, the current case, the count and the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from gdnbench.measure.observer import PHASES, Observer
from gdnbench.measure.protocol import Examined
from gdnbench.model.case import Case
from gdnbench.model.status import Status
from gdnbench.render.console import message_console


@contextmanager
def watch(*, quiet: bool) -> Iterator[Observer]:
    """An observer for stderr, as `watch_here` gives it, or for who started this command, if they asked to be told.

    Those are told however quiet stderr is to be: what they print is theirs to decide.
    """
    if elsewhere := _event_observer():
        yield elsewhere
        return
    with watch_here(quiet=quiet) as observer:
        yield observer


def _event_observer() -> Observer | None:
    if "gdnbench.remote.events" not in sys.modules:  # `take_events` is in it
        return None
    from gdnbench.remote.events import event_observer

    return event_observer()


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Says on stderr what is being waited for."""
    if elsewhere := _event_observer():
        elsewhere.step(text)
        yield
        return
    with message_console().status(text):
        yield


@contextmanager
def watch_here(*, quiet: bool) -> Iterator[PlainObserver]:
    """An observer for stderr: a live bar in a terminal, plain lines elsewhere, nothing if quiet.

    Where Ctrl-C ends what it watches, it says how far that had come.
    """
    with _observer(quiet=quiet) as observer:
        try:
            yield observer
        except KeyboardInterrupt:
            observer.stopped()
            raise


@contextmanager
def _observer(*, quiet: bool) -> Iterator[PlainObserver]:
    console = message_console(quiet=quiet)
    if quiet or not console.is_terminal:
        yield PlainObserver(console)
        return
    # In a narrow terminal only the step is cut.
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", style="bold", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
        TextColumn("{task.fields[step]}", style="dim", table_column=rest),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        yield LiveObserver(progress)


class PlainObserver(Observer):
    """Prints a line for each phase and each failure: what fails alike at several workloads is told at the first."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: set[tuple[str, Status, str]] = set()
        self._phase, self._total, self._done = "", 0, 0

    def begin(self, phase: str, total: int) -> None:
        """Prints the phase that begins."""
        self._phase, self._total, self._done = PHASES[phase], total, 0
        if total:
            self._show_phase()

    def advance(self) -> None:
        """Counts what is done."""
        self._done += 1

    def stopped(self) -> None:
        """Prints what was done of the phase that was stopped."""
        when = f" while {self._phase}, with {self._done} of {self._total} done" if self._total else ""
        self._console.print(f"stopped{when}", style="yellow")

    def _show_phase(self) -> None:
        self._console.print(f"{self._phase} ({self._total})")

    def examined(self, case: Case, result: Examined) -> None:
        """Prints a failure; kernels that cannot run here are listed in the table."""
        self.judged(case.label, str(case.workload), result.status, result.reason)

    def judged(self, label: str, workload: str, status: Status, reason: str) -> None:
        """As `examined`, of a case in words."""
        first = reason.partition("\n")[0]
        if status.is_failure and (label, status, first) not in self._told:
            self._told.add((label, status, first))
            self._console.print(f"[red]{status}[/] {escape(f'{label} {workload}: {first}')}")

    def standing(self, text: str) -> None:
        """Prints the state of the race."""
        if text:
            self._console.print(escape(text), style="dim")

    def note(self, text: str) -> None:
        """Prints a note."""
        self._console.print(f"[yellow]note:[/] {escape(text)}")


class LiveObserver(PlainObserver):
    """The same lines, and a progress bar."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.console)
        self._progress = progress
        self._task = progress.add_task("starting", total=None, step="")

    def begin(self, phase: str, total: int) -> None:
        """Restarts the bar."""
        super().begin(phase, total)
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(PHASES[phase], total=total or None, step="", visible=bool(total))

    def step(self, what: str) -> None:
        """Shows the current step beside the bar."""
        self._progress.update(self._task, step=escape(what))

    def advance(self) -> None:
        """Advances the bar."""
        super().advance()
        self._progress.advance(self._task)

    def _show_phase(self) -> None:
        pass  # the bar shows it
