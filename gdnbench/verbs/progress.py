"""Live progress on stderr: phase, current case, count and time left; in a pipe a line each ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from gdnbench.process import events
from gdnbench.render.console import message_console


@contextmanager
def watch(*, quiet: bool) -> Iterator[events.Observer]:
    """Yields an observer for the process that started this command, which gets every event, or `watch_here`'s."""
    if writer := events.event_writer():
        yield writer
        return
    with watch_here(quiet=quiet) as observer:
        yield observer


@contextmanager
def watch_here(*, quiet: bool) -> Iterator[events.Observer]:
    """Yields an observer for stderr: a bar in a terminal, lines elsewhere, nothing if quiet; it announces Ctrl-C."""
    console = message_console(quiet=quiet)
    bar = None if quiet or not console.is_terminal else _make_bar(console)
    observer = _Observer(console, bar)
    with bar or nullcontext() if quiet or bar else _repeated(observer.print_standing):
        try:
            yield observer
        except KeyboardInterrupt:
            observer.print_stopped()
            raise


EVERY_S = 10.0  # so that who follows a log sees that it goes on; what takes less prints nothing


@contextmanager
def _repeated(act: Callable[[], None]) -> Iterator[None]:
    """Does something each time that `EVERY_S` have passed, in a thread of its own."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(EVERY_S):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _make_bar(console: Console) -> Progress:
    # In a narrow terminal only the step is cut.
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", style="bold", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
        TextColumn("{task.fields[step]}", style="dim", table_column=rest),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


class _Observer:
    """Moves the bar, or knows what to print of it; what fails alike at several workloads is printed once."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task = bar.add_task("starting", total=None, step="") if bar else None
        self._printed: set[tuple[str, str, str]] = set()
        self._phase, self._total, self._done, self._step = "starting", 0, 0, ""
        self._began = time.monotonic()

    def __call__(self, event: events.CommandEvent) -> None:
        match event:
            case events.PhaseBegun(phase, total):
                self._begin(events.PHASES[phase], total)
            case events.StepChanged(what):
                self._step = what
                if self._bar and self._task is not None:
                    self._bar.update(self._task, step=escape(what))
            case events.UnitDone():
                self._done += 1
                if self._bar and self._task is not None:
                    self._bar.advance(self._task)
            case events.RaceStatus(text) if text:
                self._console.print(escape(text), style="dim")
            case events.NoteMade(text):
                self._console.print(f"[yellow]note:[/] {escape(text)}")
            case events.CaseChecked(label, workload, status, reason) if status.is_failure:  # others are in the table
                first = reason.partition("\n")[0]
                if (label, status, first) not in self._printed:
                    self._printed.add((label, status, first))
                    self._console.print(f"[red]{status}[/] {escape(f'{label} {workload}: {first}')}")

    def _begin(self, phase: str, total: int) -> None:
        self._phase, self._total, self._done, self._step = phase, total, 0, ""
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(phase, total=total or None, step="", visible=bool(total))

    def print_standing(self) -> None:
        """Prints one line: `measuring: 12 of 42 after 30 s; B=8 qk4_v8`."""
        done = f": {self._done} of {self._total}" if self._total else ""
        step = f"; {self._step}" if self._step else ""
        self._console.print(f"{self._phase}{done} after {time.monotonic() - self._began:.0f} s{step}", markup=False)

    def print_stopped(self) -> None:
        """Prints what was done of the phase that was stopped."""
        when = f" while {self._phase}, with {self._done} of {self._total} done" if self._total else ""
        self._console.print(f"stopped{when}", style="yellow")
