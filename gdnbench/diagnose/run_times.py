"""What a stored run says of a kernel's time at a workload, and of what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gdnbench.machine.gpus import spec_of
from gdnbench.model.code import CodeState


@dataclass(frozen=True)
class RunTimes:
    """What a run says of the kernel. Times in microseconds.

    Attributes:
        run_id: the run.
        gpu: its GPU's short name.
        time_us: of the kernel.
        times_us: of every kernel and floor of the run at the workload, by label.
        empty: label of the empty floor; empty if the run lacks it.
        copy: label of the copying floor; likewise.
        copy_bytes: what that floor moves.
        flops_us: what the op's FLOPs take at the GPU's peak, where they and not copying bound the workload; else None.
        launches: that one call of the kernel makes; 0 where they were not counted.
        code: whether the kernel's time is of its code as it is now.
        changed: labels whose code is known to be another now.
        functions_us: by CUPTI, the time of each function that a call launches, by its name; empty where they were not
            timed, or a call launches one.
        folder: of the run.
        sm_mhz: the SM clock while the kernel ran, the median of its samples; None where it was not measured.
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
        """The times that say something of the code as it is now, as far as that is known."""
        return {label: time for label, time in self.times_us.items() if label not in self.changed}

    @property
    def empty_us(self) -> float | None:
        """Time of the empty floor."""
        return self.times_us.get(self.empty)

    @property
    def copy_us(self) -> float | None:
        """Time of the copying floor."""
        return self.times_us.get(self.copy)

    @property
    def bound_us(self) -> float | None:
        """Time of what bounds the workload: FLOPs at the GPU's peak, else the copying floor."""
        return self.copy_us if self.flops_us is None else self.flops_us

    @property
    def launch_share(self) -> float | None:
        """The share of the kernel's time that an empty kernel takes, too."""
        return None if self.empty_us is None else min(1.0, self.empty_us / self.time_us)

    @property
    def gain(self) -> float | None:
        """The share of the kernel's time that lies above what bounds it; 0 for a kernel that beats that."""
        bound_us = self.bound_us
        return None if bound_us is None else max(0.0, 1 - bound_us / self.time_us)

    @property
    def copy_peak_share(self) -> float | None:
        """The bandwidth of the copying floor, of what the GPU's maker says it has; None where one is unknown."""
        spec = spec_of(self.gpu)
        if spec is None or self.copy_us is None or not self.copy_bytes:
            return None
        return self.copy_bytes / (self.copy_us * 1e-6) / (spec.bandwidth_gbs * 1e9)
