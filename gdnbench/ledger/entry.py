"""An experiment in the ledger: what was expected when it was opened, how runs closed it, and what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.ledger.expectation import Effort, Expectation
from gdnbench.store.schema import GitDocument, MaybeName, Name, TextLine, Timestamp

Schema = Literal[1, 2]
SCHEMA: Schema = 2  # since 2, expectations may be of other quantities than times and ratios
SCHEMAS: tuple[Schema, ...] = (1, 2)  # all that are read
EntryId = Annotated[int, Meta(ge=1, le=10**6)]
PackedSources = Annotated[str, Meta(max_length=2**24)]  # what `file.pack` gives; checked when it is unpacked


class EntryState(StrEnum):
    """What a run says of an expectation or of a whole entry; `open` before there is one."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    """The whole interval lies on the expected side of the bound; of an entry: all expectations are confirmed."""
    REFUTED = "refuted"  # the whole interval lies on the other side; of an entry: one expectation is refuted
    UNDECIDED = "undecided"  # neither: a longer run may tell


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The event that opens an entry."""

    schema: Schema = SCHEMA
    event: Literal["opened"] = "opened"
    id: EntryId
    time: Timestamp
    hypothesis: Annotated[TextLine, Meta(min_length=1)]
    op: Name
    kernel: Name
    label: Name
    expectations: Annotated[list[Expectation], Meta(min_length=1)]
    stop: TextLine = ""  # when to give up, in the user's words
    effort: Effort = field(default_factory=Effort)
    after: Annotated[int, Meta(ge=0, le=10**6)] = 0  # the entry that it follows; 0 for none
    hashes: dict[Name, TextLine] = field(default_factory=dict)
    git: GitDocument = field(default_factory=GitDocument)
    sources: PackedSources = ""


def measure_command(opened: Opened) -> list[str]:
    """What measures an entry's expectations: a run of those with times, else a profile, else closing it.

    A run has each baseline, the first of which it compares with.
    """
    by = {each.measured.measured_by for each in opened.expectations}
    of = {each.quantity for each in opened.expectations}
    baselines = list(dict.fromkeys(each.baseline for each in opened.expectations if each.baseline))
    values: dict[str, list[str]] = {}
    for expectation in opened.expectations:
        for name, value in expectation.shape.items():
            known = values.setdefault(name, [])
            known += [] if value in known else [value]
    shapes = [word for name, sizes in values.items() for word in ("--shape", f"{name}={','.join(sizes)}")]
    if "run" in by:
        baseline = ["--baseline", baselines[0]] if baselines else []
        kernels = ",".join([opened.label, *baselines])
        return ["gdnbench", "run", "--kernel", kernels, *shapes, *baseline, "--label", f"try-{opened.id}"]
    if "profile" in by:
        return ["gdnbench", "proton" if "phase" in of else "ncu", opened.label, *shapes]
    return ["gdnbench", "ledger", "close", str(opened.id)]


MeasuredValue = Annotated[float, Meta(ge=-1e18, le=1e18)]


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """What a run says of one expectation."""

    expectation: TextLine
    outcome: EntryState
    value: MeasuredValue | None = (
        None  # in the quantity's unit, of a change the difference; None unmeasured, like the ends
    )
    low: MeasuredValue | None = None
    high: MeasuredValue | None = None  # upper end of its interval, None for an interval without one; `low` is the lower
    reason: TextLine = ""
    how: TextLine = ""  # what else is known: of a change both values, and on what they were measured


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The event that closes an entry; an undecided one may be closed again, by a further run."""

    schema: Schema = SCHEMA
    event: Literal["closed"] = "closed"
    id: EntryId
    time: Timestamp
    run: MaybeName  # empty where it was closed by what can be measured without one
    source: MaybeName  # hash of the kernel's sources, those of the run
    outcome: EntryState
    findings: Annotated[list[ExpectationResult], Meta(min_length=1)]
    learned: TextLine = ""
    notes: list[TextLine] = field(default_factory=list)
    sources: PackedSources = ""  # as they were measured; empty in ledgers of before they were kept


@dataclass(frozen=True)
class LedgerEntry:
    """One experiment, as it was opened, and its closings, oldest first; only the last may be other than undecided."""

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

    def is_given_up(self, at: datetime | None = None) -> bool:
        """Whether its effort was spent before it was decided, at a moment; by default now."""
        effort, began = self.opened.effort, moment(self.opened.time)
        hours = ((at or datetime.now(UTC)) - began).total_seconds() / 3600 if began else 0.0
        is_spent = 0 < effort.closings <= len(self.closings) or 0 < effort.hours < hours
        return is_spent and not self.is_decided


def moment(timestamp: str) -> datetime | None:
    """A stored time, in UTC if it has no zone; None for a text that is not a time."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def now_text() -> str:
    """The time now, as events have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
