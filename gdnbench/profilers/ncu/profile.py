"""What Nsight Compute found about one launch of one GPU function, and how numbers are computed from its metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gdnbench.codec import Text
from gdnbench.model.workload import Workload

Value = float | str

GPU_NAME = "device__attribute_display_name"

# `--set full` gives two thousand metrics, and half of them repeat the others.
_REDUNDANT = re.compile(
    r"device__attribute_(?!display_name$)"  # what the driver says of the GPU
    r"|(\w+\.)?TriageCompute\."  # samples of the GPU as a whole, too coarse for a launch of microseconds
    r"|breakdown:|group:"  # lists of other metrics' names
    r"|derived_tempMetric|profiler__"  # ncu's own book-keeping
    r"|.*\.(min|max|sum)\.(pct_of|peak_sustained|per_cycle)"  # the same ratio as of the average, or constants
    r"|.*\.(min|max)\.per_second"
    r"|.*\.peak_sustained_elapsed"
)


def is_stored(name: str) -> bool:
    """Whether a metric of this name is read from reports and stored."""
    return not _REDUNDANT.match(name)


@dataclass(frozen=True)
class Metric:
    """One metric of ncu's.

    Attributes:
        name: ncu's name, `gpu__time_duration.sum`.
        unit: ncu's base unit, `ns`, `byte`, `%`; empty for a bare number.
        value: a number, or a text such as a name.
        section: the section of ncu's report that shows it, `SpeedOfLight`; empty where none does.
    """

    name: str
    unit: str
    value: Value
    section: str = ""


@dataclass(frozen=True)
class RuleResult:
    """What one of NVIDIA's own rules, which ncu applies to every launch, says of it.

    Attributes:
        rule: the rule's identifier, `CPIStall`.
        name: its name, `Warp Stall`.
        section: the section of ncu's report that shows it, `WarpStateStats`.
        title: of the message, `Long Scoreboard Stalls`; empty where it has none.
        message: in one line, without links.
        kind: `optimization` for what could be faster; `ok` for a remark.
        speedup_pct: what ncu estimates to be gained at most, in %; None where it estimates nothing.
        scope: `global` if that is of the launch's time, `local` if it is of the section's metric alone; else empty.
    """

    rule: Text
    name: Text
    section: Text
    title: Text
    message: Text
    kind: Literal["", "ok", "optimization", "warning", "error"] = ""
    speedup_pct: float | None = None
    scope: Literal["", "local", "global"] = ""


@dataclass(frozen=True)
class Profile:
    """One profiled launch.

    Attributes:
        label: the kernel's label, `decode-v4`; empty for a report that gdnbench did not make.
        op: the op; empty likewise.
        workload: the workload; None likewise.
        gpu: the GPU's name as ncu gives it, `NVIDIA H200`.
        arch: its architecture, `sm_90`.
        function: the GPU function that ran, `gdn_decode_v4`.
        launch: its number among the launches of the same function in the report, from 0.
        metrics: every metric, by name.
        source: hash of the kernel's sources; empty in a report that has none, or that gdnbench did not make.
        rules: the results of NVIDIA's rules, in the report's order; empty where the file holds none.
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
    rules: tuple[RuleResult, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name in a table: the kernel's label, else the function."""
        return self.label or self.function

    def number(self, *names: str) -> float | None:
        """The first metric of these names that the report holds, in its base unit; None if it holds none of them.

        ncu writes NaN for a counter that could not be read in its pass. NaN is returned then, which differs from a
        metric that is absent.
        """
        for name in names:
            metric = self.metrics.get(name)
            if metric is not None and isinstance(metric.value, float):
                return metric.value
        return None

    def has_all(self, *names: str) -> bool:
        """Whether every one of these metrics was read."""
        return all((value := self.number(name)) is not None and not math.isnan(value) for name in names)


@dataclass(frozen=True)
class NcuReport:
    """A report and what is in it.

    Attributes:
        path: the file that was written or read.
        profiles: one for each launch, in order.
    """

    path: Path
    profiles: tuple[Profile, ...]


@dataclass(frozen=True)
class Counter:
    """A quantity that is one metric, the first of these names that a report holds."""

    names: tuple[str, ...]
    scale: float = 1.0

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks it, NaN where ncu could not read it."""
        value = profile.number(*self.names)
        return None if value is None else value * self.scale


@dataclass(frozen=True)
class CounterSum:
    """A quantity that is the sum of several metrics."""

    names: tuple[str, ...]

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks one of them, NaN where ncu could not read one."""
        values = [profile.number(name) for name in self.names]
        return None if any(value is None for value in values) else sum(value for value in values if value is not None)


@dataclass(frozen=True)
class CounterRatio:
    """A quantity that is the first metric over the second."""

    names: tuple[str, str]

    def __call__(self, profile: Profile) -> float | None:
        """Its value; None where the report lacks one of them or the second is 0, NaN where ncu could not read one."""
        numerator, denominator = (profile.number(name) for name in self.names)
        return numerator / denominator if numerator is not None and denominator else None


def counter(*names: str, scale: float = 1.0) -> Counter:
    """A quantity that is one metric, by whichever of its names a version of ncu gives it."""
    return Counter(names, scale)
