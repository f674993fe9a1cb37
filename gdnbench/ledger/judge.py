"""Holds what is expected against what was measured: by a run, by stored profiles, or by building and verifying here.

What could not be measured is undecided, and its reason says what was missing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

import numpy as np

from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.inspect import compiled
from gdnbench.inspect.quantities import QUANTITIES as BUILD_QUANTITIES
from gdnbench.ledger.entry import (
    EntryState,
    Expectation,
    ExpectationResult,
    Opened,
    QuantityName,
    measure_command,
    moment,
)
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.model.case import CodeState, same_sources
from gdnbench.model.declaration import RoundoffGate, UlpGate
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import GateResult, Role, Status
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer
from gdnbench.profile.breakdown import Breakdown, analyse
from gdnbench.profile.files import find_files
from gdnbench.profile.ncu.quantities import value_of
from gdnbench.profile.ncu.store import find_profiles
from gdnbench.profile.recording import load_profile
from gdnbench.profile.stamps import read_stamps
from gdnbench.stats.interval import Interval, t_interval
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import read_clocks
from gdnbench.verify.preflight import verify_variants

_OF_BUILDS: dict[QuantityName, str] = {"registers": "regs", "spills": "spills", "shared memory": "smem", "code": "code"}
"""The names of quantities of a build in `gdnbench inspect`."""

_SEED = 0  # of the inputs that an error is measured on: a change is one on the same inputs
_STEP_LIMIT_S = 30.0
_LARGEST = 1e18  # stands for an infinite error, which a ledger cannot hold


def judge(interval: Interval, expectation: Expectation) -> EntryState:
    """Confirmed where the whole interval lies on the expected side of the bound, refuted where on the other."""
    above, below = interval.low >= expectation.bound, interval.high <= expectation.bound
    if expectation.sign == "=":
        is_met = above and below
        return EntryState.CONFIRMED if is_met else EntryState.REFUTED if above or below else EntryState.UNDECIDED
    if above == below:  # neither, or an interval that is the bound itself
        return EntryState.CONFIRMED if above else EntryState.UNDECIDED
    return EntryState.CONFIRMED if above == (expectation.sign == ">=") else EntryState.REFUTED


def decide(outcomes: Sequence[EntryState]) -> EntryState:
    """Of an entry: refuted if one expectation is, confirmed if all are."""
    if EntryState.REFUTED in outcomes:
        return EntryState.REFUTED
    return EntryState.CONFIRMED if set(outcomes) == {EntryState.CONFIRMED} else EntryState.UNDECIDED


class _UnmeasuredError(Exception):
    """A quantity has no value here; the text says why."""


@dataclass(frozen=True)
class _Value:
    """A measured value with its interval, and what it was measured on."""

    interval: Interval
    where: str


@dataclass(frozen=True)
class StoredTimes:
    """A run that is to close an entry."""

    folder: Path
    info: RunInfo
    rows: Sequence[Measurement]


@dataclass(frozen=True)
class Judgement:
    """All that an entry's expectations are held against; without a run, times and ratios stay undecided."""

    catalog: Catalog
    opened: Opened
    run: StoredTimes | None
    profiles: Path
    observer: Observer

    def results(self) -> list[ExpectationResult]:
        """What was measured says of each expectation; UsageError for a run without the kernel or the workload."""
        return [self._result(each) for each in self.opened.expectations]

    def _result(self, expectation: Expectation) -> ExpectationResult:
        try:
            value = self._value(expectation)
        except (_UnmeasuredError, GdnbenchError) as error:
            if isinstance(error, UsageError) and expectation.measured.is_time:
                raise
            reason = " ".join(str(error).split())[:1000]
            return ExpectationResult(expectation=expectation.text, outcome=EntryState.UNDECIDED, reason=reason)
        interval = value.interval
        return ExpectationResult(
            expectation=expectation.text,
            outcome=judge(interval, expectation),
            value=min(interval.estimate, _LARGEST),
            low=interval.low if math.isfinite(interval.low) else None,
            high=interval.high if math.isfinite(interval.high) else None,
            how=value.where,
        )

    def _value(self, expectation: Expectation) -> _Value:
        by = expectation.measured.measured_by
        if by == "run":
            return _Value(self._time(expectation), "")
        if by == "profile":
            return self._profiled(expectation)
        workload = self._workload(expectation)
        now, where = measure_here(
            self.catalog,
            self.opened.op,
            self.opened.label,
            workload,
            expectation.quantity,
            expectation.where if by == "build" else "",
            self.observer,
        )
        if not expectation.is_change or expectation.before is None:
            return _Value(_exact(now), "" if by == "build" else where)
        if where != expectation.where:
            raise _UnmeasuredError(f"it was measured on {expectation.where}, and is now on {where}")
        how = f"{expectation.before:.6g} to {now:.6g} on {where}"
        return _Value(_exact(now - expectation.before), how)

    def _workload(self, expectation: Expectation) -> Workload:
        return self.catalog.ops[self.opened.op].workloads.stored(expectation.sizes)

    def _time(self, expectation: Expectation) -> Interval:
        if self.run is None:
            raise _UnmeasuredError(f"it takes a run: {shlex.join(measure_command(self.opened))}")
        info, rows = self.run.info, self.run.rows
        sizes = info.workloads.stored(expectation.sizes)
        measured = {each.case.workload for each in rows}
        workload = next((at for at in (sizes.at(info.workloads.profile), sizes) if at in measured), sizes)
        row = self._row(self.opened.label, workload, rows)
        base = self._row(expectation.baseline, workload, rows) if expectation.baseline else None
        for case in (row, base):
            if case and case.status is not Status.OK:
                raise _UnmeasuredError(f"{case.case.label}: {case.status.value}")
        if expectation.quantity == "kernel time":
            by_cupti = [each for each in read_clocks(self.run.folder).get("cupti", []) if each.case.id == row.case.id]
            if not (by_cupti and by_cupti[0].timing):
                raise _UnmeasuredError(f"{info.run_id} has no kernel time of it")
            row = by_cupti[0]
        return self._interval(row, base)

    def _interval(self, row: Measurement, base: Measurement | None) -> Interval:
        assert self.run
        interval, time = None, row.timing
        if base is None:
            interval = _interval(time.time_us, time.time_lo_us, time.time_hi_us) if time else None
        elif row.versus and row.versus.baseline in {"", base.case.label} and base.case.role is Role.BASELINE:
            interval = _interval(row.versus.speedup, row.versus.low, row.versus.high)
        else:
            error_rate = 1.0 - float(self.run.info.settings["confidence"])
            confidence = 1.0 - error_rate / len(self.opened.expectations)  # Bonferroni's correction
            interval = _paired(self.run.folder, row, base, confidence)
        if interval is None or not math.isfinite(interval.estimate):
            raise _UnmeasuredError("no rounds to compare")
        return interval

    def _row(self, label: str, workload: Workload, rows: Sequence[Measurement]) -> Measurement:
        for row in rows:
            if row.case.workload == workload and row.case.variant.label == label and row.case.role is not Role.CONTROL:
                return row
        assert self.run
        message = f"{self.run.info.run_id} has no {label} at {workload}"
        raise UsageError(message, f"measure it: {shlex.join(measure_command(self.opened))}")

    def _profiled(self, expectation: Expectation) -> _Value:
        """The value of a profile of the code as it is now, or its difference to one of the code as it was opened."""
        kernel = self.opened.kernel
        entry = self.catalog.entries.get(kernel)
        if entry is None:
            raise _UnmeasuredError(f"there is no kernel {kernel} now")
        stored = _StoredValues(self.profiles, self.opened.label, self._workload(expectation), expectation)
        now = stored.newest(entry.known_source(), since=moment(self.opened.time))
        if now is None:
            command = measure_command(replace(self.opened, expectations=[expectation]))
            raise _UnmeasuredError(f"no profile of {kernel} as it is now: {shlex.join(command)}")
        if not expectation.is_change:
            return now
        before = stored.newest(self.opened.hashes.get(kernel, ""), gpu=now.where)
        if before is None:
            raise _UnmeasuredError(f"no profile of {kernel} as it was when the entry was opened, on {now.where}")
        how = f"{before.interval.estimate:.6g} to {now.interval.estimate:.6g} on {now.where}"
        return _Value(_difference(now.interval, before.interval), how)


@dataclass(frozen=True)
class _StoredValues:
    """The stored profiles of a kernel at a workload that an expectation of a phase or a counter is held against."""

    folder: Path
    label: str
    workload: Workload
    expectation: Expectation

    def newest(self, source: str, *, since: datetime | None = None, gpu: str | None = None) -> _Value | None:
        """The value by the newest profile of some code, on a GPU of a model, made since a moment; None without one."""
        if self.expectation.quantity == "counter":
            return self._counter(source, since, gpu)
        for path, stored, breakdown, sm_mhz, slug in self._breakdowns():
            if same_sources(stored, source) and stored and gpu in {None, slug} and _is_since(path, since):
                durations = breakdown.phases.get(self.expectation.of)
                if durations is None:
                    names = ", ".join(breakdown.phases)
                    raise _UnmeasuredError(f"{path.name} has no phase {self.expectation.of}: it has {names}")
                launches = np.nanmean(durations, axis=1) * sm_mhz
                return _Value(t_interval(launches[~np.isnan(launches)]), slug)
        return None

    def _counter(self, source: str, since: datetime | None, gpu: str | None) -> _Value | None:
        found = find_profiles(self.folder, self.label, self.workload, source=source, gpu=gpu)
        if found is None or found.code is not CodeState.CURRENT or not _is_since(found.path, since):
            return None
        values = [value_of(profile, self.expectation.of) for profile in found.profiles]
        known = [value for value in values if value is not None and not math.isnan(value)]
        if not known:
            raise _UnmeasuredError(f"{found.path.name} lacks {self.expectation.of}")
        slug = gpu_slug(found.profiles[0].gpu)
        return _Value(Interval(mean(known), min(known), max(known)), slug)

    def _breakdowns(self) -> Sequence[tuple[Path, str, Breakdown, float, str]]:
        """Of each profile of phases, newest first: file, source hash, durations in µs, SM clock in MHz, GPU."""
        found: list[tuple[Path, str, Breakdown, float, str]] = []
        for path in find_files(self.folder, "phases", self.label, self.workload, suffix=".npz"):
            stamps = read_stamps(path)
            profile = analyse(stamps)
            slug = gpu_slug(stamps.about.gpu)
            found.append((path, stamps.about.source, profile.breakdown, profile.timeline.sm_mhz, slug))
        for path in find_files(self.folder, "proton", self.label, self.workload, suffix=".json"):
            loaded = load_profile(path)
            if loaded.breakdown:
                about = loaded.recording
                found.append((path, about.source, loaded.breakdown, mean(about.sm_mhz), gpu_slug(about.gpu)))
        return found


def _is_since(path: Path, since: datetime | None) -> bool:
    """Whether a profile was made at a moment or later, by its name."""
    return since is None or datetime.strptime(path.name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC) >= since


def usual_arch(catalog: Catalog, op: str, label: str, workload: Workload, wanted: str) -> str:
    """The architecture that a build is measured for: the one wanted, this machine's GPU's, or the first that fits."""
    subjects, _ = compiled.choose_subjects(catalog, op, [label], [workload])
    archs = compiled.choose_archs(wanted, list_gpus())
    return archs[0] if wanted else compiled.fitting_archs(archs, subjects)[0][0]


def measure_here(
    catalog: Catalog, op: str, label: str, workload: Workload, quantity: QuantityName, arch: str, observer: Observer
) -> tuple[float, str]:
    """A quantity of a build, or the error, of a kernel as it is now, and on what it was measured.

    Of several launches the largest counts, and of code the sum. GdnbenchError if it cannot be built, verified or found.
    """
    if quantity == "error":
        return _error(catalog, op, label, workload, observer)
    subjects, _ = compiled.choose_subjects(catalog, op, [label], [workload])
    outcomes = compiled.build_subjects(subjects, [arch], lambda name: compiled.gpu_size_of(name, ()), observer)
    values: list[float] = []
    for outcome in outcomes:
        if isinstance(outcome, compiled.FailedBuild):
            raise outcome.error
        values.append(float(BUILD_QUANTITIES[_OF_BUILDS[quantity]].read(outcome) or 0))
    return sum(values) if quantity == "code" else max(values), arch


def _error(catalog: Catalog, op: str, label: str, workload: Workload, observer: Observer) -> tuple[float, str]:
    """The largest error in ulp over all kinds of inputs, infinite where numbers are wrong in another way."""
    verification = verify_variants(
        catalog,
        op,
        label,
        axes=" ".join(workload.options[1::2]),
        seed=_SEED,
        step_limit_s=_STEP_LIMIT_S,
        gpu=select_gpu("auto", list_gpus()),
        observer=observer,
    )
    (case,) = verification.cases
    verdict = verification.checked[case.id]
    if verdict.status not in {Status.OK, Status.WRONG_NUMBERS}:
        raise UsageError(f"{label} is {verdict.status.value}: {verdict.reason}")
    gates = {gate.tensor: gate for gate in catalog.ops[op].gates}
    found = [(gates.get(result.gate.split()[0]), result) for result in verdict.gates]
    known = [error for gate, result in found if gate and (error := _ulps(gate, result)) is not None]
    if not known:
        raise UsageError(f"no gate of {op} tells an error in ulp")
    return max(known), verification.interpreted.get(case.id) or verification.device


def _ulps(gate: object, result: GateResult) -> float | None:
    """A gate's worst error in units in the last place: two roundoffs are one. None for a gate without such a unit."""
    if isinstance(gate, UlpGate):
        return result.worst * gate.ulps
    if isinstance(gate, RoundoffGate):
        return result.worst / 2
    return None if result.passed else math.inf


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _difference(one: Interval, other: Interval) -> Interval:
    """The interval of the difference of two means that were measured apart."""
    estimate = one.estimate - other.estimate
    half_width = math.hypot(one.high - one.estimate, other.high - other.estimate)
    return Interval(estimate, estimate - half_width, estimate + half_width)


def _interval(value: float, low: float, high: float) -> Interval:
    """An interval as it was stored: six digits may put the value beyond its own end."""
    return Interval(value, min(low, value), max(high, value))


def _paired(folder: Path, row: Measurement, base: Measurement, confidence: float) -> Interval | None:
    from gdnbench.analyse.ratio import ratio_within_run  # a list of entries starts without these
    from gdnbench.analyse.runs import load_run

    source = load_run(folder)
    figures = {(each.label, each.workload): each for each in source.figures}
    kernel, against = (figures.get((each.case.variant.label, each.case.workload)) for each in (row, base))
    if not kernel or not against or kernel.rounds_us.shape != against.rounds_us.shape or not kernel.has_rounds:
        return None
    return ratio_within_run(source, [against], [kernel]).speedup(confidence)
