"""A kernel's time at a workload in a stored run, and the run's bounds of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.machine.gpus import spec_of
from gdnbench.model.code import CodeState


@dataclass(frozen=True)
class RunTimes:
    """A kernel's time in a run, and those of the run's floors and other kernels; in microseconds.

    Attributes:
        gpu: the GPU's short name.
        times_us: of every kernel and floor of the run at the workload, by label.
        empty: label of the empty floor; empty if the run lacks it.
        copy: label of the copy floor; empty if the run lacks it.
        copy_bytes: bytes that the copy floor moves.
        flops_us: the op's FLOPs at the GPU's peak, if they bound the workload, not copying; else None.
        launches: of one call of the kernel; 0 if not counted.
        code: whether the kernel's time is of its current code.
        changed: labels whose code is known to have changed since.
        functions_us: CUPTI time by function of a call; empty if not timed, or if a call launches one function.
        sm_mhz: the SM clock while the kernel ran, the median of its samples; None if not measured.
    """

    run_id: str
    gpu: str
    time_us: float
    times_us: Mapping[str, float] = field(repr=False)
    empty: str = ""
    copy: str = ""
    copy_bytes: int = 0
    flops_us: float | None = None
    launches: int = 0
    code: CodeState = CodeState.UNKNOWN
    changed: tuple[str, ...] = ()
    functions_us: Mapping[str, float] = field(default_factory=dict)
    folder: Path | None = None
    sm_mhz: float | None = None

    @property
    def known_us(self) -> dict[str, float]:
        """The times without those of code known to have changed."""
        return {label: time for label, time in self.times_us.items() if label not in self.changed}

    @property
    def empty_us(self) -> float | None:
        """Time of the empty floor."""
        return self.times_us.get(self.empty)

    @property
    def copy_us(self) -> float | None:
        """Time of the copy floor."""
        return self.times_us.get(self.copy)

    @property
    def bound_us(self) -> float | None:
        """Time of the workload's bound: FLOPs at the GPU's peak, else the copy floor."""
        return self.copy_us if self.flops_us is None else self.flops_us

    @property
    def launch_share(self) -> float | None:
        """An empty kernel's time as a share of the kernel's."""
        return None if self.empty_us is None else min(1.0, self.empty_us / self.time_us)

    @property
    def gain(self) -> float | None:
        """The share of the kernel's time above the bound; 0 for a kernel below it."""
        bound_us = self.bound_us
        return None if bound_us is None else max(0.0, 1 - bound_us / self.time_us)

    @property
    def copy_peak_share(self) -> float | None:
        """The copy floor's bandwidth over the maker's peak, or None if one is unknown."""
        spec = spec_of(self.gpu)
        if spec is None or self.copy_us is None or not self.copy_bytes:
            return None
        return self.copy_bytes / (self.copy_us * 1e-6) / (spec.bandwidth_gbs * 1e9)
