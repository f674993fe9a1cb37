"""An experiment in the ledger: what is expected, in the words of `--expect`, and how it was opened and closed.

    EXPECTED  TERM [and TERM …] [at WORKLOAD]     each term may have a workload of its own
    TERM      QUANTITY SIGN NUMBER [UNIT] [on ARCH]

A number with a sign, `-200` or `+8`, bounds the change of the quantity since the entry was opened; one without bounds
its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.store.schema import GitDocument, MaybeName, Name, SizesDocument, TextLine, Timestamp
from gdnbench.wording import plural

Sign = Literal["<=", ">=", "="]
QuantityName = Literal[
    "vs", "time", "kernel time", "registers", "spills", "shared memory", "code", "error", "phase", "counter"
]


@dataclass(frozen=True)
class ExpectedQuantity:
    """One thing that an expectation may bound; `of` says what is named behind it, `form` how its number is written."""

    form: str
    units: Mapping[str, float]  # what may stand behind the number, the first in texts, and how many of the first it is
    of: str = ""
    measured_by: Literal["run", "build", "verify", "profile"] = "build"
    is_exact: bool = False  # measured twice it is the same, so that `=` makes sense

    @property
    def unit(self) -> str:
        """The unit in texts; empty for a count or a ratio."""
        return next(iter(self.units))

    @property
    def is_time(self) -> bool:
        """Whether a run measures it: always at a stated workload, and never as a change."""
        return self.measured_by == "run"


_BYTES = {"bytes": 1.0, "": 1.0, "B": 1.0, "K": 1024.0, "KB": 1024.0, "KiB": 1024.0}
_MICROSECONDS = {"us": 1.0, "µs": 1.0}
QUANTITIES: Mapping[QuantityName, ExpectedQuantity] = {
    "vs": ExpectedQuantity("a ratio is a plain number: 1.02", {"": 1.0, "x": 1.0}, "BASELINE", "run"),
    "time": ExpectedQuantity("a time is a number with its unit: 4.2us", _MICROSECONDS, measured_by="run"),
    "kernel time": ExpectedQuantity("a time is a number with its unit: 1.9us", _MICROSECONDS, measured_by="run"),
    "registers": ExpectedQuantity("registers are a number a thread: 64", {"": 1.0}, is_exact=True),
    "spills": ExpectedQuantity("spills are bytes a thread: 0", _BYTES, is_exact=True),
    "shared memory": ExpectedQuantity("shared memory is bytes a block: 48K", _BYTES, is_exact=True),
    "code": ExpectedQuantity("code is bytes: 4K", _BYTES, is_exact=True),
    "error": ExpectedQuantity("an error is a number of units: 2 ulp", {"ulp": 1.0}, measured_by="verify"),
    "phase": ExpectedQuantity("a phase takes cycles: 900 cycles", {"cycles": 1.0}, "NAME", "profile"),
    "counter": ExpectedQuantity("a counter is a plain number", {"": 1.0}, "KEY", "profile"),
}

EXAMPLES = (
    "write 'vs decode-v8 >= 1.02 at B=1', 'time <= 4.2us at B=1', 'registers <= 64 and spills = 0' or "
    "'phase write <= -200 cycles and error <= 2 ulp'"
)
_TERM = re.compile(
    r"(?P<what>.*?)\s*(?P<sign><=|>=|=)\s*(?P<number>[+-]?\d{1,15}(?:\.\d{1,9})?)\s*(?P<unit>[^\s\d<>=]\S*)?"
    r"(?:\s+on\s+(?P<arch>sm_\w+))?",
    re.ASCII,
)
_AT = re.compile(r"(?P<bound>.*?)(?:\s+at\s+(?P<workload>\S.*))?")


@dataclass(frozen=True)
class Typed:
    """An expectation's parts before its names are looked up; `of` is a baseline, phase or counter, else empty."""

    quantity: QuantityName
    of: str
    sign: Sign
    bound: float
    is_change: bool = False
    arch: str = ""  # of a build; empty for the usual one
    workload: str = ""  # empty for the op's default


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A bound on a quantity of a kernel at one workload; ledgers of schema 1 have ratios and times alone."""

    text: TextLine
    baseline: MaybeName = ""  # the label of the kernel that it is compared with; empty for a bound on the time
    sign: Sign
    bound: Annotated[float, Meta(ge=-1e16, le=1e16)]
    workload: TextLine  # how tables call the workload, `B=1 qk4_v8`
    sizes: SizesDocument
    shape: dict[Name, TextLine]  # what `gdnbench run --shape` takes to measure it; all expectations have the same names
    quantity: QuantityName = "time"  # with a baseline `vs`, in ledgers of schema 1 as well
    of: TextLine = ""  # the name of a phase, or the key of a counter
    is_change: bool = False
    before: float | None = None  # of a change in a build or an error: the value when the entry was opened
    where: TextLine = ""  # of a build its architecture, of a change in an error what it was measured on

    @property
    def measured(self) -> ExpectedQuantity:
        """What it bounds."""
        return QUANTITIES["vs" if self.baseline else self.quantity]


def parse_expected(text: str) -> list[Typed]:
    """Reads all terms of an `--expect`; UsageError says which part is wrong, and what can be said."""
    terms = [_AT.fullmatch(term.strip()) for term in re.split(r"\s+and\s+", text.strip())]
    places = dict.fromkeys(term["workload"] for term in terms if term and term["workload"])
    if len(places) > 1 and any(term and not term["workload"] for term in terms):
        raise UsageError(f"--expect {text!r}: which workload is meant where none is said?", "write `at` behind each")
    common = next(iter(places), "")
    return [_parse_term(term["bound"], term["workload"] or common) for term in terms if term]


def _parse_term(text: str, workload: str) -> Typed:
    match = _TERM.fullmatch(text)
    name, of = _quantity(match["what"] if match else text)
    problem = next(_problems(text, match, name, of, workload), "")
    if problem or not match or not name:
        raise UsageError(f"--expect {text!r}: {problem}", EXAMPLES)
    quantity, number = QUANTITIES[name], match["number"]
    bound = float(number) * quantity.units[match["unit"] or ""] if match["unit"] or "" in quantity.units else 0.0
    sign: Sign = next(each for each in ("<=", ">=", "=") if each == match["sign"])
    return Typed(name, of, sign, bound, number[0] in "+-", match["arch"] or "", workload)


def _quantity(what: str) -> tuple[QuantityName | None, str]:
    """The quantity that a text begins with, and what is named behind it."""
    words = what.split()
    words = words[1:] if words[:2] == ["stream", "time"] else words
    for name in QUANTITIES:
        head = name.split()
        if words[: len(head)] == head:
            return name, " ".join(words[len(head) :])
    return None, ""


def _problems(
    text: str, match: re.Match[str] | None, name: QuantityName | None, of: str, workload: str
) -> Iterator[str]:
    """Yields what is wrong with a term, its first wrong part first."""
    if name is None:
        known = ", ".join(f"{each} {quantity.of}".strip() for each, quantity in QUANTITIES.items())
        yield f"it begins with none of {known}"
        return
    quantity = QUANTITIES[name]
    signs = ("<=", ">=", "=") if quantity.is_exact else ("<=", ">=")
    if not any(sign in text for sign in signs) or (match and match["sign"] not in signs):
        yield f"`>=`{', `=`' if quantity.is_exact else ''} or `<=` is missing behind what is expected"
    if quantity.is_time and not workload:
        yield "the workload is missing: `at B=1`"
    if match is None or (match["unit"] or "") not in quantity.units:
        yield quantity.form
        return
    is_change, number = match["number"][0] in "+-", float(match["number"])
    if bool(of) != bool(quantity.of):
        yield f"`{name}` is followed by {quantity.of}" if quantity.of else f"`{of}` means nothing behind `{name}`"
    if is_change and quantity.is_time:
        yield "a time's change is a ratio to another kernel: `vs BASELINE >= 1.02`"
    if number == 0 and not is_change and (quantity.is_time or match["sign"] == ">="):
        yield "a bound of 0 is always or never met"
    if match["arch"] and quantity.measured_by != "build":
        yield "`on` is for what a build has: registers, spills, shared memory, code"


def text_of(typed: Typed, baseline: str, where: str, workload: str) -> str:
    """An expectation in full, as tables show it and as it may be typed again."""
    quantity, sign = QUANTITIES[typed.quantity], "+" if typed.is_change else ""
    name = f"{typed.quantity} {baseline or typed.of}".strip()
    unit = quantity.unit if quantity.is_time else f" {quantity.unit}".rstrip()
    on = f" on {where}" if quantity.measured_by == "build" else ""
    return f"{name} {typed.sign} {typed.bound:{sign}.10g}{unit}{on} at {workload}"


@dataclass(frozen=True)
class Effort:
    """How much an entry may take before it is given up: closings, hours since it was opened; 0 for no limit."""

    closings: Annotated[int, Meta(ge=0, le=10**6)] = 0
    hours: Annotated[float, Meta(ge=0, le=10**6)] = 0.0

    def __str__(self) -> str:
        return plural(self.closings, "closing") if self.closings else f"{self.hours:g} h" if self.hours else ""


_EFFORT = re.compile(r"(?P<number>\d{1,6}(?:\.\d{1,3})?)\s*(?P<unit>closings?|h|min)", re.ASCII)


def parse_effort(text: str) -> Effort:
    """Reads `--effort`, which may be empty; UsageError for what is not a number of closings, hours or minutes."""
    match = _EFFORT.fullmatch(text.strip())
    if not text.strip():
        return Effort()
    is_whole = match and (not match["unit"].startswith("closing") or match["number"].isdigit())
    if not match or not is_whole or not float(match["number"]):
        raise UsageError(
            f"--effort {text!r}: it is not a number of closings, hours or minutes", "as in 3 closings, or 2 h"
        )
    number = float(match["number"])
    if match["unit"].startswith("closing"):
        return Effort(closings=int(number))
    return Effort(hours=number if match["unit"] == "h" else number / 60)


Schema = Literal[1, 2, 3]
# Since 2, expectations may be of other quantities than times and ratios; since 3, sources may stand with another entry
SCHEMA: Schema = 3
SCHEMAS: tuple[Schema, ...] = (1, 2, 3)  # all that are read
EntryId = Annotated[int, Meta(ge=1, le=10**6)]
PackedSources = Annotated[str, Meta(max_length=2**24)]  # `file.pack`'s, checked when unpacked; `=3`: those of entry 3


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
