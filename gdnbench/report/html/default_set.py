"""Which kernels a chart of many shows first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gdnbench.model import Measurement, Role, Shape
from gdnbench.report.html.content import Choice
from gdnbench.report.html.stored import timed

MOST = 8  # lines that are still told apart at a glance


def choices_of(rows: Sequence[Measurement], baseline: str) -> tuple[Choice, ...]:
    """Every kernel that has a time, with those chosen that readers ask for first.

    These are the baseline, the fastest of each shape, and then the best variant of each kernel, the fastest first.
    """
    racing = [row for row in timed(rows) if row.role is not Role.FLOOR]
    labels = list(dict.fromkeys(row.case.label for row in racing))
    shapes = list(dict.fromkeys(row.case.shape for row in racing))
    first = [next(row.case.label for row in racing if row.case.shape == shape) for shape in shapes]
    ordered = sorted(labels, key=lambda label: _slowness(label, racing, shapes))
    wanted = dict.fromkeys([*filter(labels.__contains__, [baseline]), *first, *_one_a_kernel(ordered, racing)])
    chosen = set(list(wanted)[:MOST])
    return tuple(Choice(label=label, chosen=label in chosen, baseline=label == baseline) for label in ordered)


def _slowness(label: str, rows: Sequence[Measurement], shapes: Sequence[Shape]) -> float:
    """Its mean logarithm over the fastest's; one that lacks a shape comes after those that have all."""
    logs = []
    for shape in shapes:
        times = {row.case.label: row.timing.time_us for row in rows if row.timing and row.case.shape == shape}
        if label in times:
            logs.append(math.log(times[label] / min(times.values())))
    return sum(logs) / len(logs) + 100.0 * (len(shapes) - len(logs))


def _one_a_kernel(ordered: Sequence[str], rows: Sequence[Measurement]) -> list[str]:
    kernels = {row.case.label: row.case.variant.kernel for row in rows}
    return list({kernels[label]: label for label in reversed(ordered)}.values())[::-1]
