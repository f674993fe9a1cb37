"""Gates between the steps of a plan: an entry may go on once those that it depends on are confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.errors import UsageError
from gdnbench.ledger.entry import EntryState, LedgerEntry

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
