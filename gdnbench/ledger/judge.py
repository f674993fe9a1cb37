"""Closes an entry by a stored run, and holds the gates between the steps of a plan."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.analyse.figure import Figure
from gdnbench.analyse.ratio import ratio_within_run
from gdnbench.analyse.runs import load_run
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import UsageError
from gdnbench.ledger.entry import (
    Closed,
    EntryState,
    Expectation,
    ExpectationResult,
    LedgerEntry,
    Opened,
    moment,
    now_text,
)
from gdnbench.ledger.sources import pack, read_sources
from gdnbench.model.case import same_sources
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Interval
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import read_run


def closed_event(entry: LedgerEntry, folder: Path, current: CatalogEntry | None, learned: str) -> Closed:
    """What a run says of an entry, as the event that closes it.

    Args:
        entry: not yet decided.
        folder: the run's.
        current: the kernel as it is now; None where it is gone.
        learned: what was learned, in the user's words.

    Raises:
        UsageError: if the entry is decided, the run is older than it or of other code, or a case is missing.
        RunFormatError: if the run cannot be read.
    """
    opened = entry.opened
    if entry.is_decided:
        raise UsageError(
            f"entry {opened.id} is {entry.state} already", "open a further one: gdnbench ledger add --after …"
        )
    info, measurements = read_run(folder)
    source = _check_run(opened, info, current)
    findings = [
        _find(each, opened, info, measurements, folder, len(opened.expectations)) for each in opened.expectations
    ]
    return Closed(
        id=opened.id,
        time=now_text(),
        run=info.run_id,
        source=source,
        outcome=decide([each.outcome for each in findings]),
        findings=findings,
        learned=learned.strip(),
        notes=_notes(opened, info),
        sources=pack(read_sources(current)) if current else "",
    )


def judge(interval: Interval, expectation: Expectation) -> EntryState:
    """Confirmed where the whole interval lies on the expected side of the bound, refuted where on the other."""
    above, below = interval.low >= expectation.bound, interval.high <= expectation.bound
    if above == below:  # neither, or an interval that is the bound itself
        return EntryState.CONFIRMED if above else EntryState.UNDECIDED
    return EntryState.CONFIRMED if above == (expectation.sign == ">=") else EntryState.REFUTED


def decide(outcomes: Sequence[EntryState]) -> EntryState:
    """Of an entry: refuted if one expectation is, confirmed if all are."""
    if EntryState.REFUTED in outcomes:
        return EntryState.REFUTED
    return EntryState.CONFIRMED if set(outcomes) == {EntryState.CONFIRMED} else EntryState.UNDECIDED


def run_command(opened: Opened) -> list[str]:
    """What measures an entry's expectations: each with its baseline, the first of which the run compares with."""
    baselines = list(dict.fromkeys(each.baseline for each in opened.expectations if each.baseline))
    values: dict[str, list[str]] = {}
    for expectation in opened.expectations:
        for name, value in expectation.shape.items():
            known = values.setdefault(name, [])
            known += [] if value in known else [value]
    shapes = [word for name, sizes in values.items() for word in ("--shape", f"{name}={','.join(sizes)}")]
    baseline = ["--baseline", baselines[0]] if baselines else []
    kernels = ",".join([opened.label, *baselines])
    return ["gdnbench", "run", "--kernel", kernels, *shapes, *baseline, "--label", f"try-{opened.id}"]


def _check_run(opened: Opened, info: RunInfo, current: CatalogEntry | None) -> str:
    """Refuses a run that cannot answer; gives the hash of the kernel's sources."""
    measure = f"measure it: {shlex.join(run_command(opened))}"
    if info.op != opened.op:
        raise UsageError(f"{info.run_id} is of the op {info.op}, and entry {opened.id} of {opened.op}", measure)
    began, written = moment(info.timestamp), moment(opened.time)
    if not began or not written or began < written:
        raise UsageError(
            f"{info.run_id} began before entry {opened.id} was opened, on {opened.time}: it was no expectation then",
            measure,
        )
    source = info.sources.get(opened.kernel, "")
    now = current.known_source() if current else ""
    if not now:
        raise UsageError(
            f"there is no kernel {opened.kernel} that can be read now", "`gdnbench list` shows every kernel"
        )
    if not source:
        raise UsageError(f"{info.run_id} has no {opened.kernel}, or does not tell its sources", measure)
    if not same_sources(source, now):
        raise UsageError(
            f"{info.run_id} has {opened.kernel} with other sources ({source}) than it has now ({now})",
            f"restore those, or {measure}",
        )
    return source


def _notes(opened: Opened, info: RunInfo) -> list[str]:
    notes = [
        f"the sources of {kernel} changed since the entry was opened"
        for kernel, source in opened.hashes.items()
        if kernel != opened.kernel and not same_sources(info.sources.get(kernel, source), source)
    ]
    others = {each.baseline for each in opened.expectations} - {"", info.baseline}
    if others:
        told = ", ".join(sorted(others))
        notes.append(
            f"the run's baseline is {info.baseline}: intervals against {told} are corrected for the expectations of "
            "this entry, and not for the run's comparisons"
        )
    if same_sources(info.sources.get(opened.kernel, ""), opened.hashes.get(opened.kernel, "")):
        notes.append(f"{opened.kernel} has not changed since the entry was opened")
    return notes + ([] if info.complete else ["the run is not complete"])


def _find(
    expectation: Expectation,
    opened: Opened,
    info: RunInfo,
    measurements: Sequence[Measurement],
    folder: Path,
    count: int,
) -> ExpectationResult:
    sizes = info.workloads.stored(expectation.sizes)
    measured = {each.case.workload for each in measurements}
    workload = next((at for at in (sizes.at(info.workloads.profile), sizes) if at in measured), sizes)
    row = _row(opened.label, workload, measurements, info, opened)
    base = _row(expectation.baseline, workload, measurements, info, opened) if expectation.baseline else None
    for case in (row, base):
        if case and case.status is not Status.OK:
            reason = f"{case.case.label}: {case.status.value}"
            return ExpectationResult(expectation=expectation.text, outcome=EntryState.UNDECIDED, reason=reason)
    if base is None:
        interval = _time(row)
    elif row.versus and row.versus.baseline in {"", base.case.label} and base.case.role is Role.BASELINE:
        interval = _interval(row.versus.speedup, row.versus.low, row.versus.high)
    else:
        confidence = 1.0 - (1.0 - float(info.settings["confidence"])) / count  # Bonferroni's correction
        interval = _paired(folder, row, base, confidence)
    if interval is None or not math.isfinite(interval.estimate):
        return ExpectationResult(
            expectation=expectation.text, outcome=EntryState.UNDECIDED, reason="no rounds to compare"
        )
    return ExpectationResult(
        expectation=expectation.text,
        outcome=judge(interval, expectation),
        value=interval.estimate,
        low=interval.low if math.isfinite(interval.low) else None,
        high=interval.high if math.isfinite(interval.high) else None,
    )


def _row(
    label: str, workload: Workload, measurements: Sequence[Measurement], info: RunInfo, opened: Opened
) -> Measurement:
    for row in measurements:
        if row.case.workload == workload and row.case.variant.label == label and row.case.role is not Role.CONTROL:
            return row
    raise UsageError(f"{info.run_id} has no {label} at {workload}", f"measure it: {shlex.join(run_command(opened))}")


def _time(row: Measurement) -> Interval | None:
    timing = row.timing
    return _interval(timing.time_us, timing.time_lo_us, timing.time_hi_us) if timing else None


def _interval(value: float, low: float, high: float) -> Interval:
    """An interval as it was stored: six digits may put the value beyond its own end."""
    return Interval(value, min(low, value), max(high, value))


def _paired(folder: Path, row: Measurement, base: Measurement, confidence: float) -> Interval | None:
    """The speedup by the rounds of a run that compared with another baseline."""
    source = load_run(folder)
    kernel, against = _figure(source.figures, row), _figure(source.figures, base)
    if not kernel or not against or kernel.rounds_us.shape != against.rounds_us.shape or not kernel.has_rounds:
        return None
    return ratio_within_run(source, [against], [kernel]).speedup(confidence)


def _figure(figures: Sequence[Figure], row: Measurement) -> Figure | None:
    case = row.case
    found = (each for each in figures if (each.label, each.workload) == (case.variant.label, case.workload))
    return next(found, None)


_REFUTED = "no-go"


@dataclass(frozen=True)
class Gate:
    """What stands before an entry.

    Attributes:
        blocking: numbers of the entries that are not confirmed.
        is_shut: whether one of them never will be: it is refuted, or itself behind such a one.
    """

    blocking: tuple[int, ...] = ()
    is_shut: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the entry may be measured and closed."""
        return not self.blocking

    def __str__(self) -> str:
        told = ", ".join(map(str, self.blocking))
        return "go" if self.is_open else f"{_REFUTED}: {told}" if self.is_shut else f"waits for {told}"


def gate_of(entry: LedgerEntry, entries: Mapping[int, LedgerEntry]) -> Gate:
    """The gate before an entry. Gates are of entries with smaller numbers, so that none depends on itself.

    Args:
        entry: of the ledger, or about to be.
        entries: all, by number.
    """
    return _gate(entry, entries, _shut(entries))


def gates_of(entries: Mapping[int, LedgerEntry]) -> dict[int, Gate]:
    """The gate before each entry, by number."""
    shut = _shut(entries)
    return {number: _gate(entry, entries, shut) for number, entry in entries.items()}


def _gate(entry: LedgerEntry, entries: Mapping[int, LedgerEntry], shut_of_all: set[int]) -> Gate:
    before = {number: entries[number] for number in entry.opened.gates}
    shut = shut_of_all & before.keys()
    blocking = tuple(number for number, each in before.items() if each.state is not EntryState.CONFIRMED)
    return Gate(tuple(sorted(shut)) if shut else blocking, bool(shut))


def _shut(entries: Mapping[int, LedgerEntry]) -> set[int]:
    """Numbers of the entries that are refuted, or behind such a one: each is looked at once, after all before it."""
    shut: set[int] = set()
    for number in sorted(entries):
        each = entries[number]
        if each.state is EntryState.REFUTED or shut.intersection(each.opened.gates):
            shut.add(number)
    return shut


def refuse_shut(entry: LedgerEntry, entries: Mapping[int, LedgerEntry]) -> None:
    """Refuses to open what can never be closed.

    Raises:
        UsageError: if an entry that it depends on is refuted.
    """
    gate = gate_of(entry, entries)
    if gate.is_shut:
        raise UsageError(f"{gate}: what this try depends on is refuted", f"see gdnbench ledger {gate.blocking[0]}")


def refuse_blocked(entry: LedgerEntry, entries: Mapping[int, LedgerEntry]) -> None:
    """Refuses to close an entry before its gate is open.

    Raises:
        UsageError: if an entry that it depends on is not confirmed.
    """
    gate = gate_of(entry, entries)
    if not gate.is_open:
        told = (
            f"entry {entry.opened.id} {gate}"
            if not gate.is_shut
            else f"{gate}, on which entry {entry.opened.id} depends"
        )
        raise UsageError(told, f"close that one first: gdnbench ledger close {gate.blocking[0]} RUN")
