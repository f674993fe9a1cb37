"""The further clocks of a run: the same rounds again, each clock in workers of its own, after the run's own timer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gdnbench.bench.analyse import Analysis
from gdnbench.bench.events import Examined
from gdnbench.bench.measuring import Collected, Measuring
from gdnbench.bench.task import Task
from gdnbench.errors import MachineError
from gdnbench.model import Clock, Status


def read_clock(measuring: Measuring, task: Task, rounds: int, collected: Collected) -> None:
    """Measures with one clock; one that cannot be read here costs its own numbers, and no others.

    Args:
        measuring: starts the workers.
        task: the cases, and the clock.
        rounds: how many each case is to have.
        collected: takes what is measured, and the reason where nothing is.
    """
    try:
        measuring.measure(task, rounds, collected, phase=task.clock or "measure")
    except MachineError as error:
        measuring.observer.note(f"{task.clock}: {error.message}")
        for case in task.cases:
            if not collected.samples.get(case.id) and case.id not in collected.lost:
                collected.take(Examined(case.id, Status.FAILED, error.message, clock=task.clock or ""))


def with_clocks(own: Analysis, clocks: Mapping[Clock, Analysis]) -> Analysis:
    """An analysis with those of the further clocks behind it; a warning says which clock it is of."""
    found = list(clocks.values())
    warnings = [f"{clock}: {warning}" for clock, analysis in clocks.items() for warning in analysis.warnings]
    return replace(
        own,
        clocks=tuple(row for analysis in found for row in analysis.measurements),
        rounds=(*own.rounds, *(row for analysis in found for row in analysis.rounds)),
        warnings=(*own.warnings, *warnings),
    )
