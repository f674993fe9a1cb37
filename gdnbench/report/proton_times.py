"""The times of whole launches, beside what lies inside them."""

from __future__ import annotations

from statistics import median
from typing import Any

from gdnbench.profilers.proton.recording import INSTRUMENTED, PLAIN, Recording
from gdnbench.report.run_table import percent, time_text

_NAME_WIDTH = 40  # of a GPU function; those of C++ templates are longer than a line


def time_lines(recording: Recording) -> list[str]:
    """The kernel's times in words, a clock a line; medians."""
    plain = median(recording.times_us[PLAIN])
    line = f"kernel by CUDA events, cold: {time_text(plain)} µs"
    if INSTRUMENTED in recording.times_us:
        traced = median(recording.times_us[INSTRUMENTED])
        more = f"{'+' if traced >= plain else '-'}{percent(abs(traced / plain - 1))}"
        line += f", instrumented {time_text(traced)} µs ({more})"
    times = recording.cupti_us.items()
    return [line, *(f"on the GPU by CUPTI, cold: {time_text(median(us))} µs  {_short(name)}" for name, us in times)]


def kernel_times(recording: Recording) -> list[dict[str, Any]]:
    """The same as rows, in microseconds: `kind` is the clock, `events` or `cupti`."""
    events = [_row("events", name, times) for name, times in recording.times_us.items()]
    return [*events, *(_row("cupti", name, times) for name, times in recording.cupti_us.items())]


def _row(kind: str, name: str, times: list[float]) -> dict[str, Any]:
    return {"kind": kind, "name": name, "median_us": median(times), "min_us": min(times), "max_us": max(times)}


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
