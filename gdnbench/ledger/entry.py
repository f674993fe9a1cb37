"""An experiment in the ledger: what was written down when it was opened, and how runs closed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.ledger.expectation import Expectation
from gdnbench.store.schema import GitDocument, HighEnd, LowEnd, MaybeName, Name, Positive, TextLine, Timestamp

SCHEMA: Literal[1] = 1
EntryId = Annotated[int, Meta(ge=1, le=10**6)]
PackedSources = Annotated[str, Meta(max_length=2**24, pattern=r"^[A-Za-z0-9+/=]*$")]
"""What `sources.pack` gives."""


class EntryState(StrEnum):
    """What a run says of an expectation or of a whole entry; `open` before there is one."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    """The whole interval lies on the expected side of the bound; of an entry: all expectations are confirmed."""
    REFUTED = "refuted"
    """The whole interval lies on the other side; of an entry: one expectation is refuted."""
    UNDECIDED = "undecided"
    """Neither: a longer run may tell."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The event that opens an entry.

    Attributes:
        schema: version of this format.
        event: tells it from others.
        id: the entry's number.
        time: when, UTC, ISO 8601.
        hypothesis: why it should be so.
        op: the op.
        kernel: the kernel's name.
        label: the variant's, with the params that were set.
        expectations: at least one.
        stop: when to give up, in the user's words.
        after: the entry that it follows; 0 for none.
        gates: the entries that must be confirmed before it may be closed.
        hashes: of the sources of the kernel and of each baseline, by the kernel's name.
        git: the checkout.
        sources: the kernel's own files, packed.
    """

    schema: Literal[1] = SCHEMA
    event: Literal["opened"] = "opened"
    id: EntryId
    time: Timestamp
    hypothesis: Annotated[TextLine, Meta(min_length=1)]
    op: Name
    kernel: Name
    label: Name
    expectations: Annotated[list[Expectation], Meta(min_length=1)]
    stop: TextLine = ""
    after: Annotated[int, Meta(ge=0, le=10**6)] = 0
    gates: list[EntryId] = field(default_factory=list)
    hashes: dict[Name, TextLine] = field(default_factory=dict)
    git: GitDocument = field(default_factory=GitDocument)
    sources: PackedSources = ""


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """What a run says of one expectation.

    Attributes:
        expectation: its text.
        outcome: confirmed, refuted or undecided.
        value: the speedup, or the time in microseconds; None where the case has no time, like the ends.
        low: lower end of its interval.
        high: upper end; None for an interval without one.
        reason: why there is no time.
    """

    expectation: TextLine
    outcome: EntryState
    value: Positive | None = None
    low: LowEnd | None = None
    high: HighEnd | None = None
    reason: TextLine = ""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The event that closes an entry; an undecided one may be closed again, by a further run.

    Attributes:
        schema: version of this format.
        event: tells it from others.
        id: the entry's number.
        time: when, UTC, ISO 8601.
        run: the run's id.
        source: hash of the kernel's sources, those of the run.
        outcome: of the entry.
        findings: one for each expectation, in their order.
        learned: what was learned, in the user's words.
        notes: what qualifies the outcome.
        sources: the kernel's own files as they were measured, packed; empty in ledgers of before they were kept.
    """

    schema: Literal[1] = SCHEMA
    event: Literal["closed"] = "closed"
    id: EntryId
    time: Timestamp
    run: Name
    source: MaybeName
    outcome: EntryState
    findings: Annotated[list[ExpectationResult], Meta(min_length=1)]
    learned: TextLine = ""
    notes: list[TextLine] = field(default_factory=list)
    sources: PackedSources = ""


@dataclass(frozen=True)
class LedgerEntry:
    """One experiment.

    Attributes:
        opened: what was written down first.
        closings: oldest first; only the last may be other than undecided.
    """

    opened: Opened
    closings: tuple[Closed, ...] = ()

    @property
    def last(self) -> Closed | None:
        """The closing that holds."""
        return self.closings[-1] if self.closings else None

    @property
    def state(self) -> EntryState:
        """How it stands."""
        return self.last.outcome if self.last else EntryState.OPEN

    @property
    def is_decided(self) -> bool:
        """Whether no run can change it any more."""
        return self.state in {EntryState.CONFIRMED, EntryState.REFUTED}


def moment(timestamp: str) -> datetime | None:
    """A stored time; one without a zone is UTC. None for a text that is no time."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def now_text() -> str:
    """The time now, as events have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
