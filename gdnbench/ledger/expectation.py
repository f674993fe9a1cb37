"""What is expected of a kernel, in the words of `--expect`: bounds on values, or on how much they change.

    EXPECTED  TERM [and TERM …] [at WORKLOAD]     each term may have a workload of its own
    TERM      QUANTITY SIGN NUMBER [UNIT] [on ARCH]

A number with a sign, `-200` or `+8`, bounds the change of the quantity since the entry was opened; one without bounds
its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.store.schema import MaybeName, Name, SizesDocument, TextLine
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
