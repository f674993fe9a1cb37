"""Live progress on stderr: the phase, the case at hand, how far, how long still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from gdnbench.bench.events import Examined
from gdnbench.bench.observer import Observer
from gdnbench.model import Case
from gdnbench.report.console import message_console

_PHASES = {
    "build": "building",
    "check": "checking",
    "interpret": "interpreting",
    "measure": "measuring",
    "coarse": "first pass",
    "race": "racing",
    "cupti": "reading CUPTI",
    "graph": "replaying graphs",
    "profile": "profiling",
}


@contextmanager
def watch(*, quiet: bool) -> Iterator[Observer]:
    """An observer for the terminal at hand: a live bar, plain lines where stderr is no terminal, nothing if quiet."""
    console = message_console(quiet=quiet)
    if quiet or not console.is_terminal:
        yield PlainObserver(console)
        return
    # In a narrow terminal the step is cut, and nothing else.
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
    """A line per phase and per problem."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, phase: str, total: int) -> None:
        """Says what begins."""
        if total:
            self._console.print(f"{_PHASES[phase]} ({total})")

    def examined(self, case: Case, result: Examined) -> None:
        """Says what failed; kernels that cannot run here are in the table anyway."""
        if result.status.is_failure:
            first = result.reason.partition("\n")[0]
            self._console.print(f"[red]{result.status}[/] {escape(f'{case.label} {case.shape}: {first}')}")

    def standing(self, text: str) -> None:
        """Says it."""
        if text:
            self._console.print(escape(text), style="dim")

    def note(self, text: str) -> None:
        """Says it."""
        self._console.print(f"[yellow]note:[/] {escape(text)}")


class LiveObserver(PlainObserver):
    """The same, with a bar."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.console)
        self._progress = progress
        self._task = progress.add_task("starting", total=None, step="")

    def begin(self, phase: str, total: int) -> None:
        """Starts the bar anew."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(_PHASES[phase], total=total or None, step="", visible=bool(total))

    def step(self, what: str) -> None:
        """Shows it beside the bar."""
        self._progress.update(self._task, step=escape(what))

    def advance(self) -> None:
        """Moves the bar."""
        self._progress.advance(self._task)
