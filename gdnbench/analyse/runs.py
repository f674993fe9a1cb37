"""Reads stored runs as sources of figures: one by its folder, or all of a results folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gdnbench.analyse.figure import Figure, FigureSource, KernelTime, SourceKind
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.model.declaration import Params
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.process.events import Observer, PhaseBegun, UnitDone, ignore
from gdnbench.store.find import list_runs, readable
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_by_clock, read_measurements
from gdnbench.store.samples import CaseRounds, read_case_rounds
from gdnbench.store.schema import GpuDocument

VERSIONS = ("torch", "triton", "cuda-bench", "cuda-core", "nvidia-cuda-nvrtc", "fla-core", "flashinfer-python")
"""The libraries whose versions are conditions of a run."""

KERNEL_CLOCK: Clock = "cupti"  # the clock of kernel times

_NO_ROUNDS = CaseRounds(np.empty(0), np.empty(0, dtype=np.int64))


class StoredCase(NamedTuple):
    """A case of a stored run, in brief, controls aside; `timer` is empty without a time."""

    label: str
    kernel: str
    workload: Workload
    role: Role
    timer: str
    has_time: bool
    moves_bytes: bool


@dataclass(frozen=True, eq=False)
class StoredCases:
    """The cases of a run in the order of its file."""

    every: tuple[StoredCase, ...]

    @cached_property
    def by_label(self) -> dict[str, list[StoredCase]]:
        """The cases of each label."""
        found: dict[str, list[StoredCase]] = {}
        for case in self.every:
            found.setdefault(case.label, []).append(case)
        return found

    def with_axes_of(self, axes: WorkloadSpec) -> StoredCases:
        """The cases at workloads of these axes: those that they lack were at their defaults."""
        return StoredCases(tuple(case._replace(workload=axes.completed(case.workload)) for case in self.every))


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A stored run as its history needs it. `axes` identify its workloads; None for those that it was measured with."""

    folder: Path
    info: RunInfo
    cases: StoredCases
    axes: WorkloadSpec | None = None

    @property
    def name(self) -> str:
        """Its id."""
        return self.info.run_id

    @property
    def gpu(self) -> str:
        """The GPU's short name."""
        return self.info.gpu

    @property
    def op(self) -> str:
        """Its op's name."""
        return self.info.op

    @property
    def timestamp(self) -> str:
        """Its start, UTC, ISO 8601."""
        return self.info.timestamp

    @property
    def dirty(self) -> bool:
        """Whether its checkout differed from its commit."""
        return bool(self.info.git.get("dirty"))

    @property
    def complete(self) -> bool:
        """Whether it has every case and round requested."""
        return self.info.complete

    @cached_property
    def conditions(self) -> dict[str, str]:
        """The conditions that it was measured under, as `conditions_of` gives them."""
        return conditions_of(self.info)

    @cached_property
    def source(self) -> FigureSource:
        """Its figures with their rounds, which takes a tenth of a second to read."""
        source = load_run(self.folder)
        return source.with_axes_of(self.op, self.axes) if self.axes else source

    def case(self, label: str, workload: Workload) -> StoredCase | None:
        """A label's case at a workload; None where it has none."""
        return next((each for each in self.cases.by_label.get(label, ()) if each.workload == workload), None)

    def source_hash(self, label: str) -> str:
        """The hash of the sources of a label's kernel; empty where it is not known."""
        case = next(iter(self.cases.by_label.get(label, ())), None)
        return self.info.sources.get(case.kernel, "") if case else ""


def load_stored_runs(results: Path, observer: Observer = ignore) -> list[StoredRun]:
    """Reads every run of a results folder, oldest first; leaves out unreadable ones with a warning."""
    folders = list_runs(results)
    if not folders:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all, or name --out")
    observer(PhaseBegun("read", len(folders)))

    def load(folder: Path) -> StoredRun:
        observer(UnitDone())
        rows = read_measurements(folder)
        cases = tuple(_stored_case(row) for row in rows if row.role is not Role.CONTROL)
        return StoredRun(folder, read_info(folder), StoredCases(cases))

    runs = list(readable(folders, load))
    if not runs:
        raise RunFormatError(f"none of the {len(folders)} runs in {results} can be read", "measure anew")
    return sorted(runs, key=lambda run: (run.timestamp, run.name))


def _stored_case(row: Measurement) -> StoredCase:
    case, timing = row.case, row.timing
    timer = timing.timer if timing else ""
    return StoredCase(
        case.label, case.variant.kernel, case.workload, row.role, timer, timing is not None, row.nbytes > 0
    )


def load_run(folder: Path) -> FigureSource:
    """Reads a run's folder; the control, which measures the baseline again, becomes the source's noise."""
    info, rows = read_info(folder), read_by_clock(folder)
    measurements, rounds = rows.get(None, []), read_case_rounds(folder)
    kernel_times = {}
    for row in rows.get(KERNEL_CLOCK, []):
        if row.timing:
            own = rounds.get((row.case.id, KERNEL_CLOCK), _NO_ROUNDS)
            kernel_times[row.case.id] = KernelTime(
                time_us=row.timing.time_us, rounds_us=own.times_us, processes=own.processes
            )
    figures = [
        _figure(info, row, rounds.get((row.case.id, None), _NO_ROUNDS), kernel_times.get(row.case.id))
        for row in measurements
    ]
    return FigureSource(
        name=info.run_id,
        kind=SourceKind.MEASURED,
        gpu=info.gpu,
        figures=tuple(figure for figure in figures if figure.role is not Role.CONTROL),
        controls=tuple(figure for figure in figures if figure.role is Role.CONTROL),
        noise=_noise(measurements),
        conditions=conditions_of(info),
        warnings=tuple(info.warnings),
    )


def _figure(info: RunInfo, row: Measurement, rounds: CaseRounds, kernel_time: KernelTime | None) -> Figure:
    timing, variant = row.timing, row.case.variant
    # The kernel that a dispatcher picked is one of the params: two picks are two cases.
    params = Params({"KERNEL": variant.kernel, **variant.params}) if variant.is_picked else variant.params
    times = (timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else (math.nan,) * 3
    return Figure(
        op=info.op,
        kernel=variant.kernel,
        label=variant.label,
        params=params,
        workload=row.case.workload,
        role=row.role,
        timer=timing.timer if timing else "",
        time_us=times[0],
        low_us=times[1],
        high_us=times[2],
        rounds_us=rounds.times_us,
        processes=rounds.processes,
        kernel_time=kernel_time,
        launches=row.launches,
        nbytes=row.nbytes,
        status=row.status,
        reason=row.reason,
        source_hash=info.sources.get(variant.kernel, ""),
        tuned=" or ".join(info.tuned.get(row.case.id, ())),
    )


def _noise(measurements: list[Measurement]) -> dict[Workload, float]:
    """By workload, how far the baseline may be apart from itself: the farther end of the A/A interval, a log-ratio."""
    return {
        row.case.workload: float(max(abs(np.log(row.versus.low)), abs(np.log(row.versus.high))))
        for row in measurements
        if row.role is Role.CONTROL and row.versus and row.versus.low > 0 and np.isfinite(row.versus.high)
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
