"""Reads stored runs as sources of figures: one by its folder, or all of a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdnbench.compare.figure import Figure, FigureSource, KernelTime, SourceKind
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.model.case import Variant
from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.params import Params
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.store.find import list_runs, readable
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.samples import CaseRounds, read_case_rounds
from gdnbench.store.schema import GpuDocument

VERSIONS = ("torch", "triton", "cuda-bench", "cuda-core", "nvidia-cuda-nvrtc", "fla-core", "flashinfer-python")
"""The libraries whose versions are conditions of a run."""

KERNEL_CLOCK: Clock = "cupti"
"""The clock of kernel times."""

_NO_ROUNDS = CaseRounds(np.empty(0), np.empty(0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A stored run as its history needs it; `timestamp` is its start, UTC, ISO 8601.

    `dirty` says that its checkout differed from its commit, `complete` that it has every case and round asked for.
    """

    source: FigureSource
    op: str
    timestamp: str
    dirty: bool = False
    complete: bool = True

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its source's figures."""
        return self.source.figures


def load_stored_runs(results: Path) -> list[StoredRun]:
    """Reads every run of a results folder, oldest first; leaves out unreadable runs with a warning.

    Raises:
        UnknownNameError: if there are no runs.
        RunFormatError: if none can be read.
    """
    folders = list_runs(results)
    if not folders:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all, or name --out")
    runs = list(readable(folders, _load_stored_run))
    if not runs:
        raise RunFormatError(f"none of the {len(folders)} runs in {results} can be read", "measure anew")
    return sorted(runs, key=lambda run: (run.timestamp, run.source.name))


def _load_stored_run(folder: Path) -> StoredRun:
    info, source = read_info(folder), load_run(folder)
    return StoredRun(
        source=source,
        op=info.op,
        timestamp=str(info.timestamp),
        dirty=bool(info.git.get("dirty")),
        complete=info.complete,
    )


def load_run(folder: Path) -> FigureSource:
    """Reads a run's folder; the control, which measures the baseline again, becomes the source's noise.

    RunFormatError is raised if it has no readable run.
    """
    info, rows = read_info(folder), read_by_clock(folder)
    measurements, rounds = rows.get(None, []), read_case_rounds(folder)
    kernel_times = {
        row.case.id: _kernel_time(row.timing, rounds.get((row.case.id, KERNEL_CLOCK), _NO_ROUNDS))
        for row in rows.get(KERNEL_CLOCK, [])
        if row.timing
    }
    found = [
        _figure(info, row, rounds.get((row.case.id, None), _NO_ROUNDS), kernel_times.get(row.case.id))
        for row in measurements
    ]
    return FigureSource(
        name=info.run_id,
        kind=SourceKind.MEASURED,
        gpu=info.gpu,
        figures=tuple(figure for figure in found if figure.role is not Role.CONTROL),
        controls=tuple(figure for figure in found if figure.role is Role.CONTROL),
        noise=_noise(measurements),
        conditions=conditions_of(info),
        warnings=tuple(info.warnings),
    )


def _kernel_time(timing: Timing, rounds: CaseRounds) -> KernelTime:
    return KernelTime(
        time_us=timing.time_us, rounds_us=rounds.times_us, processes=rounds.processes, sm_mhz=timing.sm_mhz
    )


def _figure(info: RunInfo, row: Measurement, rounds: CaseRounds, kernel_time: KernelTime | None) -> Figure:
    timing, variant = row.timing, row.case.variant
    return Figure(
        op=info.op,
        kernel=variant.kernel,
        label=variant.label,
        params=_params(variant),
        workload=row.case.workload,
        role=row.role,
        timer=timing.timer if timing else "",
        time_us=timing.time_us if timing else float("nan"),
        low_us=timing.time_lo_us if timing else float("nan"),
        high_us=timing.time_hi_us if timing else float("nan"),
        rounds_us=rounds.times_us,
        processes=rounds.processes,
        kernel_time=kernel_time,
        launches=row.launches,
        nbytes=row.nbytes,
        sm_mhz=timing.sm_mhz if timing else float("nan"),
        status=row.status,
        reason=row.reason,
        source_hash=info.sources.get(variant.kernel, ""),
        tuned=" or ".join(info.tuned.get(row.case.id, ())),
    )


def _params(variant: Variant) -> Params:
    """A variant's params, with the kernel that a dispatcher picked as one of them: two picks are two cases."""
    return Params({"KERNEL": variant.kernel, **variant.params}) if variant.is_picked else variant.params


def _noise(measurements: list[Measurement]) -> dict[Workload, float]:
    """By workload, how far the baseline may be apart from itself: the farther end of the A/A interval, a log-ratio."""
    controls = [row for row in measurements if row.role is Role.CONTROL and row.versus]
    return {
        row.case.workload: float(max(abs(np.log(row.versus.low)), abs(np.log(row.versus.high))))
        for row in controls
        if row.versus and row.versus.low > 0 and np.isfinite(row.versus.high)
    }


def conditions_of(info: RunInfo) -> dict[str, str]:
    """What a time depends on besides the kernel, by name; unknown conditions are left out."""
    gpu = info.machine.get("gpu") or GpuDocument()
    versions = info.machine.get("versions", {})
    trim = info.settings.get("trim")
    known = {
        "GPU": gpu.get("uuid"),
        "driver": gpu.get("driver"),
        "memory clock": gpu.get("memory_mhz"),
        "highest SM clock": gpu.get("sm_max_mhz"),
        "power limit": gpu.get("power_limit_w"),
        "ECC": gpu.get("ecc"),
        "commit": info.git.get("commit"),
        **{name: versions.get(name) for name in VERSIONS},
        "samples": info.settings.get("samples"),
        "plain": info.settings.get("plain"),
        "trim": None if trim is None else f"{trim:.0%}",
    }
    return {name: str(value) for name, value in known.items() if value is not None}
