"""An experiment in the ledger: what was expected when it was opened, how runs closed it, and what it depends on."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.store.schema import (
    GitDocument,
    HighEnd,
    LowEnd,
    MaybeName,
    Name,
    Positive,
    SizesDocument,
    TextLine,
    Timestamp,
)

Sign = Literal["<=", ">="]

EXAMPLES = "write 'vs decode-v8 >= 1.02 at B=1' or 'time <= 4.2us at B=1'"
_NUMBER = r"(?P<number>\d{1,9}(?:\.\d{1,9})?)"
_RATIO = re.compile(rf"vs\s+(?P<baseline>\S+)\s*(?P<sign><=|>=)\s*{_NUMBER}x?\s+at\s+(?P<workload>\S.*)", re.ASCII)
_TIME = re.compile(rf"time\s*(?P<sign><=|>=)\s*{_NUMBER}\s*(?P<unit>us|µs)\s+at\s+(?P<workload>\S.*)", re.ASCII)
_BEGUN = re.compile(r"(?:vs\s+\S+|time)\s*(?P<rest>.*)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A bound on a kernel's speedup or time at one workload."""

    text: TextLine
    baseline: MaybeName = ""  # the label of the kernel that it is compared with; empty for a bound on the time
    sign: Sign
    bound: Annotated[float, Meta(gt=0, le=1e12)]
    workload: TextLine  # how tables call the workload, `B=1 qk4_v8`
    sizes: SizesDocument
    shape: dict[Name, TextLine]  # what `gdnbench run --shape` takes to measure it; all expectations have the same names


@dataclass(frozen=True)
class Typed:
    """An expectation's parts before its names are looked up; `baseline` is empty for a time."""

    baseline: str
    sign: Sign
    bound: float
    workload: str


def parse_expectation(text: str) -> Typed:
    """Reads an expectation; UsageError says which part is wrong."""
    match = _RATIO.fullmatch(text.strip()) or _TIME.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--expect {text!r}: {_what_is_wrong(text.strip())}", EXAMPLES)
    bound = float(match["number"])
    if not 0 < bound < math.inf:
        raise UsageError(f"--expect {text!r}: a bound of 0 is always or never met", EXAMPLES)
    sign: Sign = "<=" if match["sign"] == "<=" else ">="
    return Typed(match.groupdict().get("baseline") or "", sign, bound, match["workload"])


def _what_is_wrong(text: str) -> str:
    begun = _BEGUN.fullmatch(text)
    if not begun:
        return "it begins with neither `vs BASELINE` nor `time`"
    rest = begun["rest"]
    if not re.match(r"<=|>=", rest):
        return "`>=` or `<=` is missing behind what is expected"
    if not re.search(r"\sat\s+\S", rest):
        return "the workload is missing: `at B=1`"
    if text.startswith("time"):
        return "a time is a number with its unit: 4.2us"
    return "a ratio is a plain number: 1.02"


SCHEMA: Literal[1] = 1
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

    schema: Literal[1] = SCHEMA
    event: Literal["opened"] = "opened"
    id: EntryId
    time: Timestamp
    hypothesis: Annotated[TextLine, Meta(min_length=1)]
    op: Name
    kernel: Name
    label: Name
    expectations: Annotated[list[Expectation], Meta(min_length=1)]
    stop: TextLine = ""  # when to give up, in the user's words
    after: Annotated[int, Meta(ge=0, le=10**6)] = 0  # the entry that it follows; 0 for none
    gates: list[EntryId] = field(default_factory=list)  # the entries that must be confirmed before it may be closed
    hashes: dict[Name, TextLine] = field(default_factory=dict)
    git: GitDocument = field(default_factory=GitDocument)
    sources: PackedSources = ""


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


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """What a run says of one expectation."""

    expectation: TextLine
    outcome: EntryState
    value: Positive | None = None  # the speedup, or the time in microseconds; None without a time, like the ends
    low: LowEnd | None = None
    high: HighEnd | None = None  # upper end of its interval, None for an interval without one; `low` is the lower
    reason: TextLine = ""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The event that closes an entry; an undecided one may be closed again, by a further run."""

    schema: Literal[1] = SCHEMA
    event: Literal["closed"] = "closed"
    id: EntryId
    time: Timestamp
    run: Name
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


@dataclass(frozen=True)
class Gate:
    """The numbers of the entries on which one depends and that are not confirmed; `is_shut`: one never will be."""

    blocking: tuple[int, ...] = ()
    is_shut: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the entry may be measured and closed."""
        return not self.blocking

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.blocking))
        return "go" if self.is_open else f"no-go: {numbers}" if self.is_shut else f"waits for {numbers}"


def gates_of(entries: Mapping[int, LedgerEntry]) -> dict[int, Gate]:
    """The gate before each entry, by number."""
    shut = _shut(entries)
    return {number: gate_of(entry, entries, shut) for number, entry in entries.items()}


def gate_of(entry: LedgerEntry, entries: Mapping[int, LedgerEntry], shut_of_all: Collection[int] | None = None) -> Gate:
    """The gate before an entry of the ledger, or one about to be; an entry depends on smaller numbers only."""
    shut_of_all = _shut(entries) if shut_of_all is None else shut_of_all
    before = {number: entries[number] for number in entry.opened.gates}
    shut = before.keys() & shut_of_all
    blocking = tuple(number for number, each in before.items() if each.state is not EntryState.CONFIRMED)
    return Gate(tuple(sorted(shut)) if shut else blocking, bool(shut))


def _shut(entries: Mapping[int, LedgerEntry]) -> set[int]:
    """Numbers of the entries that are refuted or depend on such a one; each is visited once, after those before it."""
    shut: set[int] = set()
    for number in sorted(entries):
        each = entries[number]
        if each.state is EntryState.REFUTED or shut.intersection(each.opened.gates):
            shut.add(number)
    return shut


def refuse_shut(entry: LedgerEntry, entries: Mapping[int, LedgerEntry]) -> None:
    """Raises UsageError for an entry that can never be closed: one that it depends on is refuted."""
    gate = gate_of(entry, entries)
    if gate.is_shut:
        raise UsageError(f"{gate}: what this try depends on is refuted", f"see gdnbench ledger {gate.blocking[0]}")


def refuse_blocked(entry: LedgerEntry, entries: Mapping[int, LedgerEntry]) -> None:
    """Raises UsageError for closing an entry before its gate is open."""
    gate = gate_of(entry, entries)
    if not gate.is_open:
        own = f"entry {entry.opened.id}"
        message = f"{gate}, on which {own} depends" if gate.is_shut else f"{own} {gate}"
        raise UsageError(message, f"close that one first: gdnbench ledger close {gate.blocking[0]} RUN")
