"""Records CUPTI's activities, and finds the timed launches in them.

A case begins with an empty kernel of gdnbench's own. Each launch is a fill, which flushes the L2, then the case's
activities, then another such empty kernel, so that a case may launch several kernels and fills. A third empty kernel
ends the case; the checks of its launches follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from gdnbench.errors import ProfilerError

FILL = "Memset (Device)"  # torch's profiler's name of a fill
COPY = "Memcpy"  # prefix of torch's profiler's names of copies
CASE = "case"
END = "end"
CHECKS = "checks"
FEWEST_WHOLE = 0.5  # share of a round's launches; if fewer are complete, more than stray records are missing


class Activity(NamedTuple):
    """An activity of the GPU, with its begin and end on the GPU's clock."""

    name: str
    start_ns: int
    end_ns: int


LaunchActivities = list[Activity]
"""The activities of one launch of a case, without its flush."""


def split_cases(activities: Iterable[Activity], prefix: str) -> list[list[Activity]]:
    """The activities of each case of a round, by start; `prefix` begins the names of gdnbench's own kernels."""
    cases: list[list[Activity]] = []
    is_open = False
    for activity in sorted(activities, key=lambda activity: activity.start_ns):
        if activity.name == prefix + CASE:
            cases.append([])
        if activity.name in {prefix + CASE, prefix + CHECKS}:
            is_open = activity.name == prefix + CASE
        elif is_open:
            cases[-1].append(activity)
    return cases


def split_launches(activities: Iterable[Activity], prefix: str) -> list[LaunchActivities]:
    """The launches of a case; one whose flush or kernels were not recorded is shorter, or missing."""
    launches: list[LaunchActivities] = []
    is_open = False
    for activity in activities:
        if activity.name.startswith(prefix):
            is_open = False
        elif is_open:
            launches[-1].append(activity)
        elif activity.name == FILL:
            launches.append([])
            is_open = True
    return launches


def whole_launches(launches: Sequence[LaunchActivities]) -> list[LaunchActivities]:
    """The launches with as many activities as most have; the others have lost records, or those that separate them."""
    sizes = Counter(len(launch) for launch in launches if launch) or Counter(len(launch) for launch in launches)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    return [launch for launch in launches if len(launch) == usual]


def launch_times_us(launches: Sequence[LaunchActivities], expected: int) -> tuple[float, ...]:
    """Times of complete launches in a round, first start to last end, µs; ProfilerError if under half are."""
    whole = [launch for launch in whole_launches(launches) if launch]
    if not whole or len(whole) < FEWEST_WHOLE * expected:
        raise ProfilerError(f"CUPTI recorded {len(whole)} of {expected} launches")
    return tuple(
        (max(activity.end_ns for activity in launch) - min(activity.start_ns for activity in launch)) / 1e3
        for launch in whole
    )


class ActivityRecorder:
    """Records the GPU's activities between a start and a stop through torch's profiler, which includes CUPTI."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self) -> None:
        """Begins to record."""
        self._profile = profile(activities=[ProfilerActivity.CUDA])
        self._profile.start()

    def stop(self) -> list[Activity]:
        """Waits for the GPU and returns its activities since the start, in any order, without the host's."""
        torch.cuda.synchronize()
        self._profile.stop()
        return [
            Activity(event.name(), event.start_ns(), event.end_ns())
            for event in self._profile.profiler.kineto_results.events()
            if event.device_type() == DeviceType.CUDA
        ]
