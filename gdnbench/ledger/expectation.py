"""What is expected of a kernel at a workload, as typed: `vs decode-v8 >= 1.02 at B=1`, `time <= 4.2us at B=1`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.store.schema import MaybeName, Name, SizesDocument, TextLine

Sign = Literal["<=", ">="]

EXAMPLES = "write 'vs decode-v8 >= 1.02 at B=1' or 'time <= 4.2us at B=1'"
_NUMBER = r"(?P<number>\d{1,9}(?:\.\d{1,9})?)"
_RATIO = re.compile(rf"vs\s+(?P<baseline>\S+)\s*(?P<sign><=|>=)\s*{_NUMBER}x?\s+at\s+(?P<workload>\S.*)", re.ASCII)
_TIME = re.compile(rf"time\s*(?P<sign><=|>=)\s*{_NUMBER}\s*(?P<unit>us|µs)\s+at\s+(?P<workload>\S.*)", re.ASCII)
_BEGUN = re.compile(r"(?:vs\s+\S+|time)\s*(?P<rest>.*)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A bound on a kernel's speedup or time at one workload.

    Attributes:
        text: as the ledger shows it, in one spelling.
        baseline: the label of the kernel that it is compared with; empty for a bound on the time.
        sign: which side of the bound is expected.
        bound: of the baseline's time over the kernel's, or of the kernel's time in microseconds.
        workload: how tables call the workload, `B=1 qk4_v8`.
        sizes: the workload's axes and lists.
        shape: what `gdnbench run --shape` takes to measure it, by name; the names are those of all expectations.
    """

    text: TextLine
    baseline: MaybeName = ""
    sign: Sign
    bound: Annotated[float, Meta(gt=0, le=1e12)]
    workload: TextLine
    sizes: SizesDocument
    shape: dict[Name, TextLine]


@dataclass(frozen=True)
class Typed:
    """An expectation's parts before its names are looked up: `baseline` is empty for a time."""

    baseline: str
    sign: Sign
    bound: float
    workload: str


def parse_expectation(text: str) -> Typed:
    """Reads an expectation.

    Raises:
        UsageError: saying which part is wrong.
    """
    found = _RATIO.fullmatch(text.strip()) or _TIME.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--expect {text!r}: {_what_is_wrong(text.strip())}", EXAMPLES)
    bound = float(found["number"])
    if not 0 < bound < math.inf:
        raise UsageError(f"--expect {text!r}: a bound of 0 is always or never met", EXAMPLES)
    sign: Sign = "<=" if found["sign"] == "<=" else ">="
    return Typed(found.groupdict().get("baseline") or "", sign, bound, found["workload"])


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
