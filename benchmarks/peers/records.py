"""The benchmark's record: a tidy CSV with one line a comparison, appended trial by trial.

A trial's lines are written at once, and each says how many they are: what a killed run leaves of its last trial is told
from a whole one, and measured anew.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from .rules import Outcome


@dataclass(frozen=True)
class Line:
    """One comparison of a trial, by one rule.

    Attributes:
        peer: the tool.
        rule: how its two times were judged.
        group: what was started together with it: peers of a group share a process.
        trial: number of the group's trial, from 1.
        lines: how many lines the group's trial has.
        workload: where.
        target: the slowdown that was wanted; 0 for equal kernels.
        copy: which of several equal names B has.
        chain: additions planted in B.
        slowdown: of B by the pilot, relative.
        slowdown_low: lower end of the pilot's interval.
        slowdown_high: upper end.
        a_us: the tool's time of A, µs; empty where it gave none.
        b_us: of B.
        ratio: B over A.
        margin: below which the tool calls two kernels the same, as it states it, relative.
        verdict: what it said of B.
        outcome: what that is worth.
        seconds: that a user of this tool alone waits for the trial: its process's start and all of its kernels.
        reason: why there is no verdict.
        gpu: the GPU's UUID.
        time: when the trial ended, UTC.
    """

    peer: str
    rule: str
    group: str
    trial: int
    workload: str
    target: float
    copy: int
    chain: int
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    outcome: Outcome
    seconds: float
    verdict: str = ""
    margin: float = 0.0
    a_us: float | None = None
    b_us: float | None = None
    reason: str = ""
    gpu: str = ""
    time: str = ""
    lines: int = 0

    @property
    def ratio(self) -> float | None:
        """B over A."""
        return self.b_us / self.a_us if self.a_us and self.b_us else None


COLUMNS = (*(each.name for each in fields(Line)), "ratio")
_NUMBERS = {"trial": int, "copy": int, "chain": int, "lines": int}
_FLOATS = ("target", "slowdown", "slowdown_low", "slowdown_high", "seconds", "margin")


class RecordError(ValueError):
    """A file that this benchmark did not write."""


def append_trial(path: Path, trial: Sequence[Line]) -> None:
    """Appends all lines of a group's trial in one write, the header before the first ones.

    Args:
        path: the CSV.
        trial: its lines; how many they are is written into each.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    with path.open("a", newline="", encoding="utf-8") as file:
        if not file.tell():
            writer.writeheader()
        writer.writerows(_cells(replace(line, lines=len(trial))) for line in trial)
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())


def _cells(line: Line) -> dict[str, Any]:
    return {name: _cell(getattr(line, name)) for name in COLUMNS}


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9g}"
    return " ".join(str(value).split()) if isinstance(value, str) else value


def read_lines(path: Path) -> list[Line]:
    """The lines of every whole trial; what a killed run left of its last one is passed over.

    Raises:
        RecordError: for a file that this benchmark did not write.
    """
    return [line for line, _ in _whole_trials(path)]


def _whole_trials(path: Path) -> list[tuple[Line, str]]:
    """The lines of every whole trial, each with its text."""
    text = path.read_text(encoding="utf-8")
    texts = text[: text.rfind("\n") + 1].splitlines(keepends=True)  # no cell has a line feed in it
    header = ",".join(COLUMNS)
    if not texts and header.startswith(text):
        return []
    reader = csv.DictReader(texts)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise RecordError(f"{path} has not the columns of this benchmark: give another file")
    try:
        found = [_line(row) for row in reader]
    except (TypeError, ValueError) as error:
        raise RecordError(f"{path} was changed by hand: {error}") from error
    counts = Counter((line.group, line.trial) for line in found)
    both = zip(found, texts[1:], strict=True)
    return [(line, own) for line, own in both if counts[line.group, line.trial] == line.lines]


def _line(row: dict[str, Any]) -> Line:
    values: dict[str, Any] = {each.name: row[each.name] for each in fields(Line)}
    values |= {name: number(values[name]) for name, number in _NUMBERS.items()}
    values |= {name: float(values[name]) for name in _FLOATS}
    values |= {name: float(values[name]) if values[name] else None for name in ("a_us", "b_us")}
    values["outcome"] = Outcome(values["outcome"])
    return Line(**values)


def drop_partial_trials(path: Path) -> set[tuple[str, int]]:
    """Takes what a killed run left half-written out of a record, so that it can be appended to.

    Returns:
        The group and number of every whole trial; none where there is no file.

    Raises:
        RecordError: for a file that this benchmark did not write, which stays as it is.
    """
    if not path.exists():
        return set()
    whole = _whole_trials(path)
    if not whole:
        path.unlink()
        return set()
    header = path.read_text(encoding="utf-8").partition("\n")[0]
    kept = path.with_name(f"{path.name}.whole")
    kept.write_text("\n".join([header, "".join(text for _, text in whole)]), encoding="utf-8")
    kept.replace(path)
    return {(line.group, line.trial) for line, _ in whole}
