"""Reads the trace that Proton's CUPTI backend writes: how long each GPU function ran."""

from __future__ import annotations

import json
from pathlib import Path

from gdnbench.errors import ProfilerError


def durations_us(path: Path, launches: int) -> dict[str, list[float]]:
    """Durations of GPU functions in launches that a flush of the L2 preceded each.

    Args:
        path: the trace; the flush is the first function in it.
        launches: how many launches it holds.

    Returns:
        Microseconds by function, the flush left out; one a launch, the sum where a launch runs a function repeatedly.

    Raises:
        ProfilerError: if the trace does not hold as many launches.
    """
    try:
        events = sorted(json.loads(path.read_text())["traceEvents"], key=lambda event: float(event["ts"]))
        timed = [(str(event["name"]), float(event["dur"])) for event in events if event.get("cat") == "kernel"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProfilerError(f"Proton's CUPTI backend left no trace that can be read: {error}") from error
    flush = timed[0][0] if timed else ""
    if sum(name == flush for name, _ in timed) != launches:
        raise ProfilerError("the flushes in Proton's CUPTI trace are not those that were launched")
    found: dict[str, list[float]] = {name: [0.0] * launches for name, _ in timed if name != flush}
    launch = -1
    for name, duration in timed:
        if name == flush:
            launch += 1
        else:
            found[name][launch] += duration
    return found
