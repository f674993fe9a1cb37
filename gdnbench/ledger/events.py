"""Makes the events of the ledger: opens an entry from what was typed, closes it by a stored run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import parse_workload
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.codec import convert
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.ledger.entry import (
    EXAMPLES,
    Closed,
    EntryState,
    Expectation,
    ExpectationResult,
    LedgerEntry,
    Opened,
    Typed,
    moment,
    now_text,
    parse_expectation,
    refuse_shut,
    run_command,
)
from gdnbench.ledger.file import Entries, pack, read_sources
from gdnbench.machine.provenance import git_state
from gdnbench.model.case import same_sources
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import Op
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.stats.interval import Interval
from gdnbench.store.info import RunInfo
from gdnbench.store.measurements import read_run
from gdnbench.store.schema import GitDocument


def plan_try(
    catalog: Catalog,
    hypothesis: str,
    kernel: str,
    expected: Sequence[str],
    *,
    op: str = "",
    stop: str = "",
    after: int = 0,
    gates: Sequence[int] = (),
) -> Opened:
    """An entry to open, from what was typed, with its names looked up; `opened_event` numbers it."""
    if not hypothesis.strip():
        raise UsageError("the hypothesis is empty", "say why: gdnbench ledger add 'bulk stores leave sooner' …")
    if not expected:
        raise UsageError("nothing is expected, so that nothing could refute it", f"--expect: {EXAMPLES}")
    typed = [parse_expectation(text) for text in expected]
    of = find_op(catalog, resolve_op(catalog, op, [kernel]))
    entry, variant = find_variant(catalog, of.name, kernel)
    hashes = {entry.kernel.name: entry.known_source()}
    expectations: dict[str, Expectation] = {}
    workloads = [_workload(of, each) for each in typed]
    for each, workload in zip(typed, workloads, strict=True):
        baseline = ""
        if each.baseline:
            base, against = find_variant(catalog, of.name, each.baseline)
            baseline, hashes[base.kernel.name] = against.label, base.known_source()
        if baseline == variant.label:
            raise UsageError(f"{baseline} is expected to be faster or slower than itself", "name another baseline")
        found = _expectation(each, baseline, workload, workloads)
        expectations[found.text] = found
    return Opened(
        id=1,
        time=now_text(),
        hypothesis=hypothesis.strip(),
        op=of.name,
        kernel=entry.kernel.name,
        label=variant.label,
        expectations=list(expectations.values()),
        stop=stop.strip(),
        after=after,
        gates=list(dict.fromkeys(gates)),
        hashes=hashes,
        git=convert(git_state(entry.folder), GitDocument),
        sources=pack(read_sources(entry)),
    )


def _workload(op: Op, typed: Typed) -> Workload:
    try:
        return parse_workload(op, typed.workload, "an expectation is of one")
    except UsageError as error:
        reason = error.message.removeprefix("--shape: ")
        raise UsageError(f"--expect … at {typed.workload}: {reason}", f"{EXAMPLES}, one for each workload") from error


def _expectation(typed: Typed, baseline: str, workload: Workload, every: Sequence[Workload]) -> Expectation:
    what = f"vs {baseline} {typed.sign} {typed.bound:.10g}" if baseline else f"time {typed.sign} {typed.bound:.10g}us"
    needed = {name for each in every for name in _terms(each) if _terms(each)[name] != _terms(each.spec.default)[name]}
    terms = {name: value for name, value in _terms(workload).items() if name in {*needed, workload.spec.x}}
    return Expectation(
        text=f"{what} at {' '.join(workload.options[1::2])}",
        baseline=baseline,
        sign=typed.sign,
        bound=typed.bound,
        workload=str(workload),
        sizes={name: list(size) if isinstance(size, tuple) else size for name, size in workload.sizes.items()},
        shape=terms,
    )


def _terms(workload: Workload) -> dict[str, str]:
    """Every size by the name that `--shape` takes, aliases for the axes that they cover."""
    aliases = [alias for alias in workload.spec.aliases if workload.aliases.get(alias.name)]
    covered = {axis for alias in aliases for axis in alias.axes}
    named = {alias.name: workload.aliases[alias.name] for alias in aliases}
    return {**{name: str(size) for name, size in workload.cells.items() if name not in {*covered, "profile"}}, **named}


def opened_event(planned: Opened, entries: Entries) -> Opened:
    """The event that opens a planned entry; UnknownNameError for an unknown one to follow or depend on."""
    for option, numbers in (("--after", [planned.after] if planned.after else []), ("--gate", planned.gates)):
        for number in numbers:
            if number not in entries:
                raise UnknownNameError(f"{option} {number}: there is no such entry", "`gdnbench ledger` lists them")
    opened = replace(planned, id=max(entries, default=0) + 1, time=now_text())
    refuse_shut(LedgerEntry(opened), entries)
    return opened


def refuted_before(planned: Opened, entries: Entries) -> str:
    """Why a try repeats one that was refuted, by what it expects or by its code; empty where it does not."""
    expected = {each.text for each in planned.expectations}
    for entry in entries.values():
        if entry.state is not EntryState.REFUTED or entry.opened.label != planned.label:
            continue
        for each in entry.last.findings if entry.last else ():
            if each.outcome is EntryState.REFUTED and each.expectation in expected:
                return f"entry {entry.opened.id} refuted `{each.expectation}` of {planned.label} already"
        source = entry.last.source if entry.last else ""
        if source and same_sources(source, planned.hashes[planned.kernel]):
            return f"{planned.label} is still the code that entry {entry.opened.id} was refuted with"
    return ""


def closed_event(entry: LedgerEntry, folder: Path, current: CatalogEntry | None, learned: str) -> Closed:
    """The event that closes an entry by a run; UsageError if that is older than it, or of other code than `current`."""
    opened = entry.opened
    if entry.is_decided:
        hint = "open a further one: gdnbench ledger add --after …"
        raise UsageError(f"entry {opened.id} is {entry.state} already", hint)
    info, measurements = read_run(folder)
    source = _check_run(opened, info, current)
    findings = [_result_of(each, opened, info, measurements, folder) for each in opened.expectations]
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


def _check_run(opened: Opened, info: RunInfo, current: CatalogEntry | None) -> str:
    measure = f"measure it: {shlex.join(run_command(opened))}"
    if info.op != opened.op:
        raise UsageError(f"{info.run_id} is of the op {info.op}, and entry {opened.id} of {opened.op}", measure)
    began, written = moment(info.timestamp), moment(opened.time)
    if not began or not written or began < written:
        opening = f"before entry {opened.id} was opened, on {opened.time}"
        raise UsageError(f"{info.run_id} began {opening}: it was no expectation then", measure)
    source = info.sources.get(opened.kernel, "")
    now = current.known_source() if current else ""
    if not now:
        message = f"there is no kernel {opened.kernel} that can be read now"
        raise UsageError(message, "`gdnbench list` shows every kernel")
    if not source:
        raise UsageError(f"{info.run_id} has no {opened.kernel}, or does not tell its sources", measure)
    if not same_sources(source, now):
        message = f"{info.run_id} has {opened.kernel} with other sources ({source}) than it has now ({now})"
        raise UsageError(message, f"restore those, or {measure}")
    return source


def _notes(opened: Opened, info: RunInfo) -> list[str]:
    notes = [
        f"the sources of {kernel} changed since the entry was opened"
        for kernel, source in opened.hashes.items()
        if kernel != opened.kernel and not same_sources(info.sources.get(kernel, source), source)
    ]
    if others := {each.baseline for each in opened.expectations} - {"", info.baseline}:
        notes.append(
            f"the run's baseline is {info.baseline}: intervals against {', '.join(sorted(others))} are corrected for "
            "the expectations of this entry, and not for the run's comparisons"
        )
    if same_sources(info.sources.get(opened.kernel, ""), opened.hashes.get(opened.kernel, "")):
        notes.append(f"{opened.kernel} has not changed since the entry was opened")
    return notes + ([] if info.complete else ["the run is not complete"])


def _result_of(
    expectation: Expectation, opened: Opened, info: RunInfo, measurements: Sequence[Measurement], folder: Path
) -> ExpectationResult:
    def undecided(reason: str) -> ExpectationResult:
        return ExpectationResult(expectation=expectation.text, outcome=EntryState.UNDECIDED, reason=reason)

    sizes = info.workloads.stored(expectation.sizes)
    measured = {each.case.workload for each in measurements}
    workload = next((at for at in (sizes.at(info.workloads.profile), sizes) if at in measured), sizes)
    row = _row(opened.label, workload, measurements, info, opened)
    base = _row(expectation.baseline, workload, measurements, info, opened) if expectation.baseline else None
    for case in (row, base):
        if case and case.status is not Status.OK:
            return undecided(f"{case.case.label}: {case.status.value}")
    interval, time = None, row.timing
    if base is None:
        interval = _interval(time.time_us, time.time_lo_us, time.time_hi_us) if time else None
    elif row.versus and row.versus.baseline in {"", base.case.label} and base.case.role is Role.BASELINE:
        interval = _interval(row.versus.speedup, row.versus.low, row.versus.high)
    else:
        error_rate = 1.0 - float(info.settings["confidence"])
        interval = _paired(folder, row, base, 1.0 - error_rate / len(opened.expectations))  # Bonferroni's correction
    if interval is None or not math.isfinite(interval.estimate):
        return undecided("no rounds to compare")
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
