"""How values are written, in every table alike: intervals, verdicts, statuses, numbers.

An interval is anything with `estimate`, `low` and `high`: `list` does not import NumPy for `stats.interval`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeGuard

from rich.text import Text

from gdnbench.model.status import Status
from gdnbench.render.units import factor, plus_minus, relative_half_width, time_text

VERDICT_STYLES = {"faster": "bold green", "slower": "bold red", "same": "", "unclear": "yellow"}
"""By the value of a `stats.interval.Verdict`."""

GLYPHS = {"faster": "▲", "slower": "▼", "same": "=", "unclear": "?", "best": "★", "tied": "="}
"""Signs of verdicts and places on a page, so that colour alone does not tell them apart."""

NAME_STYLE = "cyan"
"""Of the names of kernels."""


class IntervalLike(Protocol):
    """A value and the ends of its interval, in one unit."""

    estimate: float
    low: float
    high: float
    relative_half_width: float


@dataclass(frozen=True)
class StoredInterval:
    """A stored value and the ends of its interval, which may be infinite or NaN."""

    estimate: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half of the interval over the value; infinite or NaN if an end is."""
        return relative_half_width(self.estimate, self.low, self.high)


def is_interval(value: object) -> TypeGuard[IntervalLike]:
    """Whether a value has an interval."""
    return hasattr(value, "relative_half_width")


def fields(keys: Sequence[str], value: object) -> dict[str, object]:
    """Returns a value by its names in CSV and JSON: those of a mapping, three of an interval, else one."""
    if list(keys) == ["*"]:
        assert isinstance(value, Mapping)
        return {name: plain(each) for name, each in value.items()}
    if len(keys) == 1:
        return {keys[0]: plain(value)}
    if value is None:
        return dict.fromkeys(keys)
    assert is_interval(value)
    return dict(zip(keys, (value.estimate, value.low, value.high), strict=True))


def plain(value: object) -> object:
    """Returns the value of an enumeration, and anything else as it is."""
    return value.value if isinstance(value, Enum) else value


def cell(key: str, value: object) -> Text:
    """Returns a value for people; `key` tells its unit: microseconds where it ends so, else numbers are ratios."""
    if value is None or isinstance(value, Text):
        return value or Text("")
    if isinstance(value, Status):
        return status_cell(value)
    if isinstance(value, Enum) and value.value in VERDICT_STYLES:
        return verdict_cell(value.value)
    if isinstance(value, float):
        return Text(_number(key, value))
    if is_interval(value):
        return Text(f"{_number(key, value.estimate)}{plus_minus(value.relative_half_width)}")
    return Text(str(plain(value)))


def _number(key: str, value: float) -> str:
    if math.isnan(value):
        return ""
    return time_text(value) if key.endswith("_us") else factor(value)


def verdict_cell(verdict: str, text: str = "") -> Text:
    """Returns a verdict in its colour: `FASTER`, or a text that says it."""
    return Text(text or verdict.upper(), style=VERDICT_STYLES.get(verdict, ""))


def passed_cell(*, passed: bool) -> Text:
    """Returns whether a gate was passed."""
    return Text("pass", style="green") if passed else Text("FAIL", style="bold red")


def status_cell(status: Status) -> Text:
    """Returns how a case failed, red, or why it was not measured, yellow; empty for OK."""
    return Text("") if status is Status.OK else Text(status.value, style=status_style(status))


def status_style(status: Status) -> str:
    """Returns the colour of a status; what is wrong with a kernel is red."""
    return "" if status is Status.OK else "red" if status.is_failure else "yellow"
