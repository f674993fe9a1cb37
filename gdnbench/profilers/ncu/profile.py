"""What Nsight Compute found about one launch of one GPU function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gdnbench.model import Shape

Value = float | str


@dataclass(frozen=True)
class Metric:
    """One counter.

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
class Profile:
    """One profiled launch.

    Attributes:
        label: the kernel's label, `decode-v4`; empty for a report that gdnbench did not make.
        op: the op; empty likewise.
        shape: the workload; None likewise.
        gpu: the GPU's name as ncu tells it, `NVIDIA H200`.
        arch: its architecture, `sm_90`.
        function: the GPU function that ran, `gdn_decode_v4`.
        launch: its number among the launches of the same function in the report, from 0.
        metrics: every counter, by name.
        source: hash of the kernel's sources; empty for a report of before there was one, or that is not gdnbench's.
    """

    label: str
    op: str
    shape: Shape | None
    gpu: str
    arch: str
    function: str
    launch: int
    metrics: Mapping[str, Metric] = field(repr=False)
    source: str = ""

    @property
    def name(self) -> str:
        """What a table calls it: the kernel's label, else the function."""
        return self.label or self.function

    def number(self, *names: str) -> float | None:
        """The first counter of these names that the report holds, in its base unit; None if it holds none of them.

        ncu writes NaN where a counter could not be read in its pass; that comes back as NaN, for it is not the same
        as absent.
        """
        for name in names:
            metric = self.metrics.get(name)
            if metric is not None and isinstance(metric.value, float):
                return metric.value
        return None

    def has_all(self, *names: str) -> bool:
        """Whether every one of these counters was read."""
        return all((value := self.number(name)) is not None and not math.isnan(value) for name in names)
