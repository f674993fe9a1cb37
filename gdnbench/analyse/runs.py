"""Reads stored runs as sources of figures: one by its folder, or all of a results folder."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from gdnbench.analyse.figure import Figure, FigureSource, KernelTime, SourceKind
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.model.declaration import Params
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock, Role
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.process.events import Observer, PhaseBegun, UnitDone, ignore
from gdnbench.store.files import MEASUREMENTS
from gdnbench.store.find import list_runs, readable
from gdnbench.store.index import RunIndex, stamp_of
from gdnbench.store.info import INFO, RunInfo, read_info
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.samples import ROUNDS, CaseRounds, read_case_rounds
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
    has_rounds: bool
    moves_bytes: bool


@dataclass(frozen=True, eq=False)
class StoredCases:
    """The cases of a run in the order of its file. Runs that have the same ones share them."""

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


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A stored run as its history needs it; `timestamp` is its start, UTC, ISO 8601.

    `dirty` says that its checkout differed from its commit, `complete` that it has every case and round requested,
    `stamp` is that of its files. `axes` identify its workloads; None for those that it was measured with.
    """

    folder: Path
    stamp: str
    index: RunIndex
    name: str
    gpu: str
    op: str
    timestamp: str
    dirty: bool
    complete: bool
    cases: StoredCases
    raw_conditions: msgspec.Raw
    raw_sources: msgspec.Raw
    axes: WorkloadSpec | None = None

    @cached_property
    def conditions(self) -> dict[str, str]:
        """The conditions that it was measured under, as `conditions_of` gives them."""
        return msgspec.msgpack.decode(self.raw_conditions, type=dict[str, str])

    @cached_property
    def sources(self) -> dict[str, str]:
        """The hash of each kernel's sources, by the kernel's name."""
        return msgspec.msgpack.decode(self.raw_sources, type=dict[str, str])

    @cached_property
    def source(self) -> FigureSource:
        """Its figures with their rounds, which takes a tenth of a second to read."""
        source = _load_cached(self.folder, self.stamp)
        return source.with_axes_of(self.op, self.axes) if self.axes else source

    def case(self, label: str, workload: Workload) -> StoredCase | None:
        """A label's case at a workload; None where it has none."""
        return next((each for each in self.cases.by_label.get(label, ()) if each.workload == workload), None)

    def source_hash(self, label: str) -> str:
        """The hash of the sources of a label's kernel; empty where it is not known."""
        case = next(iter(self.cases.by_label.get(label, ())), None)
        return self.sources.get(case.kernel, "") if case else ""


class _Document(msgspec.Struct, array_like=True):
    """What the index keeps of a run. Fields that all histories need of few runs, or that runs share, are raw."""

    name: str
    gpu: str
    op: str
    timestamp: str
    dirty: bool
    complete: bool
    conditions: msgspec.Raw
    sources: msgspec.Raw
    cases: msgspec.Raw


class _CasesDocument(msgspec.Struct, array_like=True):
    axes: msgspec.Raw
    workloads: tuple[msgspec.Raw, ...]
    cases: tuple[tuple[str, str, int, tuple[Role, str, bool, bool, bool]], ...]


def load_stored_runs(results: Path, observer: Observer = ignore) -> list[StoredRun]:
    """Reads every run of a results folder, oldest first; leaves out unreadable ones with a warning."""
    folders = list_runs(results)
    if not folders:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all, or name --out")
    index = RunIndex(results, folders)
    observer(PhaseBegun("read", len(folders)))

    def load(folder: Path) -> StoredRun:
        observer(UnitDone())
        return _load_stored_run(folder, index)

    runs = list(readable(folders, load))
    index.save()
    if not runs:
        raise RunFormatError(f"none of the {len(folders)} runs in {results} can be read", "measure anew")
    return sorted(runs, key=lambda run: (run.timestamp, run.name))


def _load_stored_run(folder: Path, index: RunIndex) -> StoredRun:
    stamp = stamp_of(folder, (INFO, MEASUREMENTS, ROUNDS))
    document = index.answer("run", folder, stamp, _Document, lambda folder: _document(folder, stamp))
    stored = msgspec.structs.asdict(document)
    raw = {f"raw_{name}": stored.pop(name) for name in ("conditions", "sources")}
    cases = _cases(bytes(stored.pop("cases")))
    return StoredRun(folder=folder, stamp=stamp, index=index, cases=cases, **stored, **raw)


def _document(folder: Path, stamp: str) -> _Document:
    info, source = read_info(folder), _load_cached(folder, stamp)
    workloads = {workload: at for at, workload in enumerate(dict.fromkeys(each.workload for each in source.figures))}
    cases = []
    for each in source.figures:
        brief = (each.role, each.timer, each.has_time, each.has_rounds, each.nbytes > 0)
        cases.append((each.label, each.kernel, workloads[each.workload], brief))
    return _Document(
        source.name,
        source.gpu,
        info.op,
        str(info.timestamp),
        bool(info.git.get("dirty")),
        info.complete,
        _raw(source.conditions),
        _raw(info.sources),
        _raw((_raw(asdict(info.workloads)), [_raw(workload.place) for workload in workloads], cases)),
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


@cache
def _cases(document: bytes) -> StoredCases:
    found = msgspec.msgpack.decode(document, type=_CasesDocument)
    axes = bytes(found.axes)
    workloads = [_workload(axes, bytes(each)) for each in found.workloads]
    cases = (StoredCase(label, kernel, workloads[at], *more) for label, kernel, at, more in found.cases)
    return StoredCases(tuple(cases))


@cache
def _workload(axes: bytes, place: bytes) -> Workload:
    return _axes(axes).stored_case(msgspec.msgpack.decode(place))


_axes = cache(msgspec.msgpack.Decoder(WorkloadSpec).decode)


@lru_cache(maxsize=32)
def _load_cached(folder: Path, stamp: str) -> FigureSource:
    """A run's figures, of the files of a stamp: the newest runs, which a history reads after all, are read once."""
    return load_run(folder)


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
