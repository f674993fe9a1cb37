"""What was not measured and why, and what the baseline reads against itself."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model import Measurement, Role, Status, Versus
from gdnbench.report.html.content import Cell, Failure
from gdnbench.report.html.numbers import speedup_cell, verdict_cell


def failures_of(rows: Sequence[Measurement], *, shapes: bool = False) -> tuple[Failure, ...]:
    """Cases without a time; those that share a status and a reason are one."""
    grouped: dict[tuple[Status, str], list[str]] = {}
    for row in rows:
        if row.status is not Status.OK and row.role is not Role.CONTROL:
            where = f" {row.case.shape}" if shapes else ""
            grouped.setdefault((row.status, row.reason), []).append(f"{row.case.label}{where}")
    return tuple(
        Failure(status=status.value, grave=status.is_failure, labels=", ".join(labels), reason=reason.strip())
        for (status, reason), labels in grouped.items()
    )


def control_cell(rows: Sequence[Measurement]) -> Cell:
    """The A/A comparison of a shape; its verdict only where it is not the one that must be."""
    versus = _control(rows)
    if versus is None:
        return Cell(text="")
    same = versus.verdict == "same"
    verdict = "" if same else f" {verdict_cell(versus.verdict).text}"
    mark = "" if same else versus.verdict
    cell = speedup_cell(versus)
    return Cell(text=f"{cell.text}{verdict}", aside=cell.aside, sort=cell.sort, mark=mark)


def control_line(rows: Sequence[Measurement]) -> str:
    """The same as a sentence; empty where there is none."""
    versus = _control(rows)
    if versus is None:
        return ""
    cell = speedup_cell(versus)
    name = next(row.case.variant.label for row in rows if row.role is Role.CONTROL)
    return f"A/A: {name} against itself {cell.text} {cell.aside}, {versus.verdict.upper()}"


def _control(rows: Sequence[Measurement]) -> Versus | None:
    return next((row.versus for row in rows if row.role is Role.CONTROL and row.versus), None)
