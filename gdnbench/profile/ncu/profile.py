"""One launch of one GPU function as Nsight Compute measured it, and how numbers are computed from its metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gdnbench.model.workload import Workload

Value = float | str

GPU_NAME = "device__attribute_display_name"

# `--set full` collects two thousand metrics; half of them repeat others.
_REDUNDANT = re.compile(
    r"device__attribute_(?!display_name$)"  # device attributes
    r"|(\w+\.)?TriageCompute\."  # samples of the whole GPU, too coarse for a launch of microseconds
    r"|breakdown:|group:"  # lists of other metrics' names
    r"|derived_tempMetric|profiler__"  # ncu's own book-keeping
    r"|.*\.(min|max|sum)\.(pct_of|peak_sustained|per_cycle)"  # the average's ratio again, or constants
    r"|.*\.(min|max)\.per_second"
    r"|.*\.peak_sustained_elapsed"
)


def is_stored(name: str) -> bool:
    """Whether a metric is read from reports and stored."""
    return not _REDUNDANT.match(name)


@dataclass(frozen=True)
class Metric:
    """One metric of ncu.

    Attributes:
        name: ncu's name, `gpu__time_duration.sum`.
        unit: ncu's base unit, `ns`, `byte`, `%`; empty for a plain number.
        section: the report section that shows it, `SpeedOfLight`; empty if none does.
    """

    name: str
    unit: str
    value: Value
    section: str = ""


@dataclass(frozen=True)
class LaunchProfile:
    """One profiled launch; `label`, `op` and `workload` are empty or None for a report that gdnbench did not make.

    Attributes:
        gpu: the GPU's name as ncu writes it, `NVIDIA H200`.
        arch: `sm_90`.
        function: the GPU function, `gdn_decode_v4`.
        launch: index among the launches of this function in the report.
        source: hash of the kernel's sources; empty if the report has none.
    """

    label: str
    op: str
    workload: Workload | None
    gpu: str
    arch: str
    function: str
    launch: int
    metrics: Mapping[str, Metric] = field(repr=False)
    source: str = ""

    @property
    def name(self) -> str:
        """The name in a table: the kernel's label, else the function."""
        return self.label or self.function

    def number(self, *names: str) -> float | None:
        """Returns the first of these metrics that the report holds, in its base unit, or None if it holds none.

        ncu writes NaN for a counter that it could not read in its pass; NaN is returned then.
        """
        for name in names:
            metric = self.metrics.get(name)
            if metric is not None and isinstance(metric.value, float):
                return metric.value
        return None

    def has_all(self, *names: str) -> bool:
        """Whether each of these metrics was read."""
        return all((value := self.number(name)) is not None and not math.isnan(value) for name in names)


@dataclass(frozen=True)
class NcuReport:
    """A report file and its launches, in order."""

    path: Path
    profiles: tuple[LaunchProfile, ...]


@dataclass(frozen=True)
class Counter:
    """A quantity of metrics: the first of `names` in a report, or their `sum`, or the `ratio` of two."""

    names: tuple[str, ...]
    scale: float = 1.0
    of: Literal["first", "sum", "ratio"] = "first"

    def __call__(self, profile: LaunchProfile) -> float | None:
        """Returns the value; None if the report lacks a metric, or the divisor is 0; NaN if ncu could not read one."""
        if self.of == "first":
            value = profile.number(*self.names)
            return None if value is None else value * self.scale
        values = [value for name in self.names if (value := profile.number(name)) is not None]
        if len(values) < len(self.names):
            return None
        if self.of == "sum":
            return sum(values)
        return values[0] / values[1] if values[1] else None
