"""Opens an entry: looks up what was typed, and refuses to try again what was refuted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.codec import convert
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.ledger.entry import (
    EXAMPLES,
    EntryState,
    Expectation,
    LedgerEntry,
    Opened,
    Typed,
    now_text,
    parse_expectation,
)
from gdnbench.ledger.file import Entries
from gdnbench.ledger.judge import refuse_shut
from gdnbench.ledger.sources import pack, read_sources
from gdnbench.machine.provenance import git_state
from gdnbench.measure.request import parse_workload
from gdnbench.model.case import same_sources
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.store.schema import GitDocument


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """What is to be tried, with its names looked up.

    Attributes:
        hypothesis: why it should be so.
        entry: the kernel.
        label: the variant's.
        expectations: at least one.
        hashes: of the sources of the kernel and of each baseline, by the kernel's name.
        stop: when to give up, in the user's words.
        after: the entry that it follows; 0 for none.
        gates: the entries that must be confirmed before it may be closed.
    """

    hypothesis: str
    entry: CatalogEntry
    label: str
    expectations: tuple[Expectation, ...]
    hashes: dict[str, str]
    stop: str = ""
    after: int = 0
    gates: tuple[int, ...] = ()


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
) -> NewEntry:
    """Looks up a try as it was typed.

    Args:
        catalog: the kernels that there are.
        hypothesis: why it should be so.
        kernel: a variant, as `--kernel` takes it.
        expected: expectations, as `parse_expectation` takes them.
        op: the kernel's op; empty for the only one that has it.
        stop: when to give up.
        after: the entry that it follows; 0 for none.
        gates: the entries that must be confirmed before it may be closed.

    Raises:
        UsageError: if the hypothesis is empty, or an expectation is none.
        UnknownNameError: for a kernel that there is not.
    """
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
    return NewEntry(
        hypothesis=hypothesis.strip(),
        entry=entry,
        label=variant.label,
        expectations=tuple(expectations.values()),
        hashes=hashes,
        stop=stop.strip(),
        after=after,
        gates=tuple(dict.fromkeys(gates)),
    )


def _workload(op: Op, typed: Typed) -> Workload:
    try:
        return parse_workload(op, typed.workload, "an expectation is of one")
    except UsageError as error:
        told = error.message.removeprefix("--shape: ")
        raise UsageError(f"--expect … at {typed.workload}: {told}", f"{EXAMPLES}, one for each workload") from error


def _expectation(typed: Typed, baseline: str, workload: Workload, beside: Sequence[Workload]) -> Expectation:
    what = f"vs {baseline} {typed.sign} {typed.bound:.10g}" if baseline else f"time {typed.sign} {typed.bound:.10g}us"
    needed = {name for each in beside for name in _terms(each) if _terms(each)[name] != _terms(each.spec.default)[name]}
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


def opened_event(planned: NewEntry, entries: Entries) -> Opened:
    """The event that opens a try's entry.

    Raises:
        UnknownNameError: if there is no entry that it is to follow, or to depend on.
        UsageError: if one that it depends on is refuted.
    """
    for option, numbers in (("--after", [planned.after] if planned.after else []), ("--gate", planned.gates)):
        for number in numbers:
            if number not in entries:
                raise UnknownNameError(f"{option} {number}: there is no such entry", "`gdnbench ledger` lists them")
    opened = Opened(
        id=max(entries, default=0) + 1,
        time=now_text(),
        hypothesis=planned.hypothesis,
        op=planned.entry.op.name,
        kernel=planned.entry.kernel.name,
        label=planned.label,
        expectations=list(planned.expectations),
        stop=planned.stop,
        after=planned.after,
        gates=list(planned.gates),
        hashes=planned.hashes,
        git=convert(git_state(planned.entry.folder), GitDocument),
        sources=pack(read_sources(planned.entry)),
    )
    refuse_shut(LedgerEntry(opened), entries)
    return opened


def refuted_before(planned: NewEntry, entries: Entries) -> str:
    """Why a try repeats one that was refuted; empty where it does not.

    It does where a refuted entry expected the same of the same variant, or where the code that refuted it is still that
    of the variant now.
    """
    expected = {each.text for each in planned.expectations}
    for entry in entries.values():
        if entry.state is not EntryState.REFUTED or entry.opened.label != planned.label:
            continue
        same = [text for text in _refuted(entry) if text in expected]
        if same:
            return f"entry {entry.opened.id} refuted `{same[0]}` of {planned.label} already"
        source = entry.last.source if entry.last else ""
        if source and same_sources(source, planned.hashes[planned.entry.kernel.name]):
            return f"{planned.label} is still the code that entry {entry.opened.id} was refuted with"
    return ""


def _refuted(entry: LedgerEntry) -> list[str]:
    findings = entry.last.findings if entry.last else []
    return [each.expectation for each in findings if each.outcome is EntryState.REFUTED]
