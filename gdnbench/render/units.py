"""How values are written, in every table alike: times, rates, ratios, intervals, sizes, verdicts, statuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

from rich.text import Text

from gdnbench.model.case import CodeState
from gdnbench.model.status import Status
from gdnbench.wording import half_interval, plural

if TYPE_CHECKING:
    from gdnbench.model.declaration import Params
    from gdnbench.model.measurement import Measurement, Versus


_MILLISECONDS_FROM_US = 10_000.0  # a column whose shortest time reaches this is in ms


@dataclass(frozen=True)
class TimeUnit:
    """The unit of a column of times: its name, `µs` or `ms`, and its microseconds."""

    name: str
    us: float

    def text(self, time_us: float, decimals: int | None = None) -> str:
        """Formats a time in microseconds, as `time_text` does, in this unit and without it."""
        return time_text(time_us / self.us, decimals)


MICROSECONDS = TimeUnit("µs", 1.0)
MILLISECONDS = TimeUnit("ms", 1000.0)


def time_unit(times_us: Iterable[float]) -> TimeUnit:
    """Returns the unit for a column of times in microseconds; NaN, an unknown time, does not count."""
    shortest = min((time for time in times_us if not math.isnan(time)), default=0.0)
    return MILLISECONDS if shortest >= _MILLISECONDS_FROM_US else MICROSECONDS


def time_text(time_us: float, decimals: int | None = None) -> str:
    """Formats µs without unit: `4.584`, `131.2`; below 100, where nanoseconds matter, three decimals, else one."""
    return number(time_us, f".{(3 if time_us < 100 else 1) if decimals is None else decimals}f")


def tflops_text(tflops: float) -> str:
    """Formats a rate in TFLOP/s without its unit, to three digits or the next whole number: `0.52`, `41.3`, `812`."""
    return number(tflops, ".2f" if tflops < 10 else ".1f" if tflops < 100 else ".0f")


def factor(value: float) -> str:
    """Formats a ratio of two times: `1.063x`, `12.50x`."""
    return "" if math.isnan(value) else f"{value:.3f}x" if value < 10 else f"{value:.2f}x"


def percent(share: float) -> str:
    """Formats a share, with two decimals below 10%: `0.27%`, `12%`."""
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"


def plus_minus(half_width: float) -> str:
    """Formats half of an interval as a share behind a value: ` ±0.27%`; empty if the interval is infinite."""
    text = half_text(half_width)
    return f" {text}" if text else ""


def half_text(half_width: float) -> str:
    """Formats half of an interval as a share, `±0.27%`, at most `±>900%`; empty if the interval is infinite."""
    return half_interval(half_width, percent)


def relative_half_width(value: float, low: float, high: float) -> float:
    """Returns half of the interval from `low` to `high` as a share of the value; infinite or NaN if an end is."""
    return (high - low) / 2 / value


def number(value: float, form: str = ".0f") -> str:
    """Formats a number by a format of Python's, `.0f` or `.1%`; empty for NaN, which stands for unknown."""
    return "" if math.isnan(value) else format(value, form)


def count_text(count: int) -> str:
    """Formats a count; empty for one below 0, which stands for unknown."""
    return "" if count < 0 else str(count)


def megabytes(count: float) -> str:
    """Formats bytes on a disk in units of 1e6: `1,234.5 MB`."""
    return f"{count / 1e6:,.1f} MB"


def traffic(count: float) -> str:
    """Formats bytes that a workload moves, in three digits: `1.44 MB`, `1.43 GB`."""
    return f"{count / 1e6:.3g} MB" if count < 999.5e6 else f"{count / 1e9:.3g} GB"


def short_path(path: Path) -> str:
    """Returns the path relative to the current folder if it lies below, else as it is."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def duration(seconds: float) -> str:
    """Formats a duration to plan with: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


CodeOf = Callable[[str, str], CodeState]
"""Takes a label and a hash of sources; returns whether that is the label's current code: `Catalog.code_state`."""

OTHER_CODE = "of other code"


def flops_bind(rows: Iterable[Measurement]) -> bool:
    """Whether the op's FLOPs at the GPU's peak, rather than copying, bound a workload of these rows."""
    return any(row.timing and row.timing.bound == "flops" for row in rows)


def settling_notes(versus: Versus | None) -> list[str]:
    """Returns how many rounds would decide an UNCLEAR comparison, or that none would; empty after one round."""
    if versus is None or versus.verdict != "unclear" or not math.isfinite(versus.high):
        return []
    more = versus.more_rounds
    return [f"{plural(more, 'more round')} would settle it" if more else "more rounds would not settle it"]


def other_code(label: str) -> str:
    """Returns a line that says that a stored result was measured with other sources than the kernel has now."""
    return f"{OTHER_CODE}: {label.partition(':')[0]}'s sources have changed since"


def params_text(params: Params, names: Iterable[str]) -> str:
    """Formats the values of some params: `BV=8 WARPS=4`."""
    return " ".join(f"{name}={params[name]}" for name in names)


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
    return Text("") if status is Status.OK else Text(status.value, style="red" if status.is_failure else "yellow")
