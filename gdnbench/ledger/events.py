"""Makes the events of the ledger: opens an entry from what was typed, closes it by what was measured."""

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
    QUANTITIES,
    Closed,
    EntryState,
    Expectation,
    LedgerEntry,
    Opened,
    Typed,
    measure_command,
    moment,
    now_text,
    parse_effort,
    parse_expected,
    text_of,
)
from gdnbench.ledger.file import Entries, pack, read_sources
from gdnbench.ledger.judge import Judgement, StoredTimes, decide, measure_here, usual_arch
from gdnbench.machine.provenance import git_state
from gdnbench.model.case import Variant, same_sources
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, ignore
from gdnbench.profile.ncu.quantities import BY_KEY
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
    effort: str = "",
    after: int = 0,
    observer: Observer = ignore,
) -> Opened:
    """An entry to open, from what was typed, with its names looked up; `opened_event` numbers it.

    What is to change and can be measured here, of builds and errors, is measured now.
    """
    if not hypothesis.strip():
        raise UsageError("the hypothesis is empty", "say why: gdnbench ledger add 'bulk stores leave sooner' …")
    if not expected:
        raise UsageError("nothing is expected, so that nothing could refute it", f"--expect: {EXAMPLES}")
    typed = [term for text in expected for term in parse_expected(text)]
    limit = parse_effort(effort)
    of = find_op(catalog, resolve_op(catalog, op, [kernel]))
    entry, variant = find_variant(catalog, of.name, kernel)
    hashes = {entry.kernel.name: entry.known_source()}
    expectations: dict[str, Expectation] = {}
    workloads = [_workload(of, each) for each in typed]
    for each, workload in zip(typed, workloads, strict=True):
        baseline = ""
        if each.quantity == "vs":
            base, against = find_variant(catalog, of.name, each.of)
            baseline, hashes[base.kernel.name] = against.label, base.known_source()
        if baseline == variant.label:
            raise UsageError(f"{baseline} is expected to be faster or slower than itself", "name another baseline")
        found = _expectation(each, baseline, workload, workloads)
        found = _measured_before(found, each, catalog, of, variant, workload, observer)
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
        effort=limit,
        after=after,
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
    if typed.quantity == "counter" and typed.of not in BY_KEY:
        raise UsageError(f"there is no counter {typed.of}", f"those of gdnbench ncu --json: {', '.join(BY_KEY)}")
    needed = {name for each in every for name in _terms(each) if _terms(each)[name] != _terms(each.spec.default)[name]}
    terms = {name: value for name, value in _terms(workload).items() if name in {*needed, workload.spec.x}}
    return Expectation(
        text=text_of(typed, baseline, typed.arch, " ".join(workload.options[1::2])),
        baseline=baseline,
        sign=typed.sign,
        bound=typed.bound,
        workload=str(workload),
        sizes={name: list(size) if isinstance(size, tuple) else size for name, size in workload.sizes.items()},
        shape=terms,
        quantity=typed.quantity,
        of="" if baseline else typed.of,
        is_change=typed.is_change,
    )


def _measured_before(
    expectation: Expectation,
    typed: Typed,
    catalog: Catalog,
    op: Op,
    variant: Variant,
    workload: Workload,
    observer: Observer,
) -> Expectation:
    """With a build's architecture, and of a change the value as it is now; what profiles hold is looked up later."""
    by = QUANTITIES[typed.quantity].measured_by
    if by not in {"build", "verify"}:
        return expectation
    arch = usual_arch(catalog, op.name, variant.label, workload, typed.arch) if by == "build" else ""
    text = text_of(typed, "", arch, " ".join(workload.options[1::2]))
    if not typed.is_change:
        return replace(expectation, text=text, where=arch)
    before, where = measure_here(catalog, op.name, variant.label, workload, typed.quantity, arch, observer)
    if not math.isfinite(before):
        raise UsageError(
            f"the numbers of {variant.label} are wrong now: no change can be measured from them", "verify it first"
        )
    return replace(expectation, text=text, before=before, where=where)


def _terms(workload: Workload) -> dict[str, str]:
    """Every size by the name that `--shape` takes, aliases for the axes that they cover."""
    aliases = [alias for alias in workload.spec.aliases if workload.aliases.get(alias.name)]
    covered = {axis for alias in aliases for axis in alias.axes}
    named = {alias.name: workload.aliases[alias.name] for alias in aliases}
    return {**{name: str(size) for name, size in workload.cells.items() if name not in {*covered, "profile"}}, **named}


def opened_event(planned: Opened, entries: Entries) -> Opened:
    """The event that opens a planned entry; UnknownNameError for an unknown one to follow."""
    if planned.after and planned.after not in entries:
        raise UnknownNameError(f"--after {planned.after}: there is no such entry", "`gdnbench ledger` lists them")
    return replace(planned, id=max(entries, default=0) + 1, time=now_text())


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


def closed_event(
    entry: LedgerEntry, folder: Path | None, catalog: Catalog, learned: str, profiles: Path, observer: Observer = ignore
) -> Closed:
    """The event that closes an entry by what was measured, of which a run may be a part.

    UsageError if the run is older than the entry or of other code than now, or the entry was decided or given up.
    """
    opened = entry.opened
    if entry.is_decided:
        hint = "open a further one: gdnbench ledger add --after …"
        raise UsageError(f"entry {opened.id} is {entry.state} already", hint)
    current, run, source = catalog.entries.get(opened.kernel), None, ""
    if folder:
        info, measurements = read_run(folder)
        source = _check_run(opened, info, current)
        run = StoredTimes(folder, info, measurements)
    elif all(each.measured.is_time for each in opened.expectations):
        message = f"entry {opened.id} expects times, which a run measures"
        raise UsageError(message, f"first {shlex.join(measure_command(opened))}")
    elif current is None:
        raise _gone(opened)
    if entry.is_given_up(moment(run.info.timestamp) if run else None):
        raise UsageError(
            f"the effort of entry {opened.id}, {opened.effort}, was spent", "gdnbench ledger add --after …"
        )
    source = source or (current.known_source() if current else "")
    findings = Judgement(catalog, opened, run, profiles, observer).results()
    return Closed(
        id=opened.id,
        time=now_text(),
        run=run.info.run_id if run else "",
        source=source,
        outcome=decide([each.outcome for each in findings]),
        findings=findings,
        learned=learned.strip(),
        notes=_notes(opened, source, run.info if run else None),
        sources=pack(read_sources(current)) if current else "",
    )


def _check_run(opened: Opened, info: RunInfo, current: CatalogEntry | None) -> str:
    measure = f"measure it: {shlex.join(measure_command(opened))}"
    if info.op != opened.op:
        raise UsageError(f"{info.run_id} is of the op {info.op}, and entry {opened.id} of {opened.op}", measure)
    began, written = moment(info.timestamp), moment(opened.time)
    if not began or not written or began < written:
        opening = f"before entry {opened.id} was opened, on {opened.time}"
        raise UsageError(f"{info.run_id} began {opening}: it was no expectation then", measure)
    source = info.sources.get(opened.kernel, "")
    now = current.known_source() if current else ""
    if not now:
        raise _gone(opened)
    if not source:
        raise UsageError(f"{info.run_id} has no {opened.kernel}, or does not tell its sources", measure)
    if not same_sources(source, now):
        message = f"{info.run_id} has {opened.kernel} with other sources ({source}) than it has now ({now})"
        raise UsageError(message, f"restore those, or {measure}")
    return source


def _gone(opened: Opened) -> UsageError:
    message = f"there is no kernel {opened.kernel} that can be read now"
    return UsageError(message, "`gdnbench list` shows every kernel")


def _notes(opened: Opened, source: str, info: RunInfo | None) -> list[str]:
    notes = []
    if same_sources(source, opened.hashes.get(opened.kernel, "")):
        notes.append(f"{opened.kernel} has not changed since the entry was opened")
    return notes + (_notes_on_run(opened, info) if info else [])


def _notes_on_run(opened: Opened, info: RunInfo) -> list[str]:
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
    return notes + ([] if info.complete else ["the run is not complete"])
