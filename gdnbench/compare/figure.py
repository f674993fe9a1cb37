"""What is compared: numbers, each with where it comes from, whoever measured them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from gdnbench.model import Params, Role, Shape, Status
from gdnbench.stats import FloatArray

NOTHING: Mapping[str, str] = MappingProxyType({})


class Kind(StrEnum):
    """Where a source's numbers come from."""

    MEASURED = "measured"  # a run of gdnbench
    PUBLISHED = "published"  # figures that others published, as they published them
    FOREIGN = "foreign"  # a file of another tool


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What one source says of one kernel at one shape.

    Attributes:
        op: the op.
        kernel: the kernel's name.
        label: the variant's label; the control is not a figure.
        params: every param's value, as far as known.
        shape: the workload.
        role: why it is in its run.
        timer: what measured: `nvbench`, `cpu`, `cupti`, …
        time_us: microseconds; NaN where there is none, and then `status` says why.
        low_us: lower end of its interval; NaN where unknown.
        high_us: upper end; NaN where unknown.
        rounds_us: shape (rounds,), round times in microseconds, NaN for a missing round; empty where unknown.
        nbytes: the least that the kernel must move; 0 where unknown.
        sm_mhz: median SM clock; NaN where unknown.
        status: how the case ended.
        reason: why, unless OK.
        source_hash: of the kernel's sources; empty where unknown.
        citation: for a published figure, where it was published and when.
    """

    op: str
    kernel: str
    label: str
    shape: Shape
    timer: str
    time_us: float
    params: Params = field(default_factory=Params)
    role: Role = Role.KERNEL
    low_us: float = float("nan")
    high_us: float = float("nan")
    rounds_us: FloatArray = field(default_factory=lambda: np.empty(0), compare=False)
    nbytes: int = 0
    sm_mhz: float = float("nan")
    status: Status = Status.OK
    reason: str = ""
    source_hash: str = ""
    citation: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One column of a comparison.

    Attributes:
        name: what heads the column: a run's id, `published/b200`, a file's name.
        kind: where its numbers come from.
        gpu: short name, `h200`; `cpu` for a run on the CPU, empty where unknown.
        figures: the numbers; one for each label, shape and timer.
        noise: by shape, how far the baseline was measured apart from itself, as a relative difference, with the half
            of its interval added; empty where there was no control.
        conditions: what else may explain a difference, by name: `driver`, `triton`, `clocks`, `commit`, ….
        warnings: what qualifies all of its numbers.
    """

    name: str
    kind: Kind
    gpu: str
    figures: tuple[Figure, ...]
    noise: Mapping[Shape, float] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    warnings: tuple[str, ...] = ()
