"""Live progress on stderr: the phase, the current case, the count and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from gdnbench.process.events import (
    PHASES,
    CaseChecked,
    CommandEvent,
    NoteMade,
    Observer,
    PhaseBegun,
    RaceStatus,
    StepChanged,
    UnitDone,
    event_writer,
)
from gdnbench.render.console import message_console


@contextmanager
def watch(*, quiet: bool) -> Iterator[Observer]:
    """Yields an observer for the process that started this command, which gets every event, or `watch_here`'s."""
    if writer := event_writer():
        yield writer
        return
    with watch_here(quiet=quiet) as observer:
        yield observer


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Says on stderr what is being waited for."""
    if writer := event_writer():
        writer(StepChanged(text))
        yield
        return
    with message_console().status(text):
        yield


@contextmanager
def watch_here(*, quiet: bool) -> Iterator[Observer]:
    """Yields an observer for stderr: a bar in a terminal, lines elsewhere, nothing if quiet; it tells of Ctrl-C."""
    console = message_console(quiet=quiet)
    bar = None if quiet or not console.is_terminal else _make_bar(console)
    observer = _Observer(console, bar)
    with bar or nullcontext():
        try:
            yield observer
        except KeyboardInterrupt:
            observer.print_stopped()
            raise


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
    """Moves the bar, or prints a line for each phase; what fails alike at several workloads is printed once."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task = bar.add_task("starting", total=None, step="") if bar else None
        self._printed: set[tuple[str, str, str]] = set()
        self._phase, self._total, self._done = "", 0, 0

    def __call__(self, event: CommandEvent) -> None:
        match event:
            case PhaseBegun(phase, total):
                self._begin(PHASES[phase], total)
            case StepChanged(what) if self._bar and self._task is not None:
                self._bar.update(self._task, step=escape(what))
            case UnitDone():
                self._done += 1
                if self._bar and self._task is not None:
                    self._bar.advance(self._task)
            case RaceStatus(text) if text:
                self._console.print(escape(text), style="dim")
            case NoteMade(text):
                self._console.print(f"[yellow]note:[/] {escape(text)}")
            case CaseChecked(label, workload, status, reason) if status.is_failure:  # others are in the table
                first = reason.partition("\n")[0]
                if (label, status, first) not in self._printed:
                    self._printed.add((label, status, first))
                    self._console.print(f"[red]{status}[/] {escape(f'{label} {workload}: {first}')}")
            case _:
                pass

    def _begin(self, phase: str, total: int) -> None:
        self._phase, self._total, self._done = phase, total, 0
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(phase, total=total or None, step="", visible=bool(total))
        elif total:
            self._console.print(f"{phase} ({total})")

    def print_stopped(self) -> None:
        """Prints what was done of the phase that was stopped."""
        when = f" while {self._phase}, with {self._done} of {self._total} done" if self._total else ""
        self._console.print(f"stopped{when}", style="yellow")
