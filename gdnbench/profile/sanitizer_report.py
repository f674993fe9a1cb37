"""Parses compute-sanitizer's output: findings with their source lines, and the number of errors.

A report is a heading and indented lines below it, the first of which has the place:

    ========= Invalid __global__ read of size 4 bytes
    =========     at past_the_end(const float *)+0x120 in /kernels/past/kernel.cu:17
    =========     by thread (0,0,0) in block (1,0,0)

A race has one place in its heading, and the others below it. Headings vary between tools: any block with a place is a
finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_LINE = re.compile(r"^={5,} ?(.*)$")
_FRAME = re.compile(r"(?P<function>.+?)(?:\+0x[0-9a-fA-F]+)?(?: in (?P<file>\S.*?):(?P<line>\d+)(?::(?P<last>.+))?)?$")
_OFFSET = re.compile(r"0x[0-9a-fA-F]+")  # older versions write it for the function, which they name behind the line
_OLD_FUNCTION = re.compile(r"0x[0-9a-fA-F]+ in (?P<function>[^:]+)$")
_AT = re.compile(r"^(?:at |Device Frame: ?)(.+)$")
_ACCESS = re.compile(r"(?:^|\s)(?:and )?(\w+(?: \(\w+\))?) access at (.+?)(?=\s+and \w+(?: \(\w+\))? access at |$)")
_HAZARDS = re.compile(r"\s*\[(\d+) hazards?\]")
_SEVERITY = re.compile(r"^(?:(?P<warning>warn(?:ing)?)|error): ?", re.IGNORECASE)
_RACE = re.compile(r"race reported between", re.IGNORECASE)
_ERRORS = re.compile(r"\b\w+ SUMMARY: (\d+) errors?\b(?! were not printed)", re.IGNORECASE)
_HAZARD_ERRORS = re.compile(r"\bRACECHECK SUMMARY: .*\((\d+) errors?", re.IGNORECASE)
_SUMMARY = re.compile(r"\bSUMMARY:", re.IGNORECASE)
_BANNER = "COMPUTE-SANITIZER"


@dataclass(frozen=True)
class DeviceFrame:
    """A place in a kernel; without line tables `file` is empty and `line`, which counts from 1, is 0."""

    function: str
    file: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """The function's own name: `past` of `void ns::past<(int)4>(const float *)`."""
        plain = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", self.function)
        plain = re.sub(r"^\[clone (.*)\].*", r"\1", plain)
        return re.split(r"[<(]", plain, maxsplit=1)[0].strip().split(" ")[-1].split("::")[-1]

    @property
    def place(self) -> str:
        """The file's name and the line, else the function."""
        return f"{Path(self.file).name}:{self.line}" if self.file else self.name


@dataclass(frozen=True)
class SanitizerFinding:
    """A fault that the tool reports."""

    what: str  # `Invalid __global__ read of size 4 bytes`
    frames: tuple[DeviceFrame, ...]  # the line, then the calls that lead to it; for a race each access
    detail: str = ""  # the first thread that has the fault, and the address
    is_warning: bool = False
    count: int = 1  # number of threads that have it

    @property
    def place(self) -> str:
        """The line of the fault; inside a called function, the line of the call as well."""
        places = list(dict.fromkeys(frame.place for frame in self.frames if frame.file))
        if not places:
            return self.frames[0].place
        is_one = len(places) == 1 or " races with " in self.what
        return places[0] if is_one else f"{places[0]}, called at {places[-1]}"

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.frames[-1].name

    def is_in(self, kernels: Iterable[str], folders: Iterable[Path]) -> bool:
        """Whether it is in one of these kernels, or a source in these folders; one without a function may be."""
        names = {*kernels}
        if not any(frame.name for frame in self.frames):
            return True
        files = [Path(frame.file) for frame in self.frames if frame.file]
        return any(frame.name in names for frame in self.frames) or any(
            file.is_relative_to(folder) for file in files for folder in folders
        )

    def __str__(self) -> str:
        detail = f", {self.detail}" if self.detail else ""
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        where = dict.fromkeys(filter(None, [self.place, self.kernel]))
        return f"{': '.join([*where, self.what])}{detail}{more}"


@dataclass(frozen=True)
class SanitizerReport:
    """The output of one tool."""

    findings: tuple[SanitizerFinding, ...]  # each once, in the order of their first report
    errors: int | None  # number of errors that the tool counts; None if it did not end
    remarks: tuple[str, ...] = ()  # other messages, such as failures of the tool

    @property
    def named_errors(self) -> int:
        """Number of errors that are findings."""
        return sum(finding.count for finding in self.findings if not finding.is_warning)


def read_report(text: str) -> SanitizerReport:
    """Parses a tool's log; skips lines that are not the tool's."""
    counts: Counter[SanitizerFinding] = Counter()
    firsts: dict[SanitizerFinding, SanitizerFinding] = {}
    errors: int | None = None
    remarks = []
    for heading, details in _blocks(text):
        if _SUMMARY.search(heading):
            found = _HAZARD_ERRORS.search(heading) or _ERRORS.search(heading)
            errors = max(int(found[1]), errors or 0) if found else errors
        elif finding := _finding(heading, details):
            alike = replace(finding, detail="")
            firsts.setdefault(alike, finding)
            counts[alike] += 1
        elif heading != _BANNER:
            remarks.append(heading)
    findings = tuple(replace(first, count=counts[alike]) for alike, first in firsts.items())
    return SanitizerReport(findings, errors, tuple(remarks))


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    heading, details = "", list[str]()
    for raw in text.splitlines():
        match = _LINE.match(raw)
        if match is None:
            continue
        line = match[1]
        if line.startswith("  ") and heading:
            details.append(line.strip())
            continue
        if heading:
            yield heading, details
        heading, details = line.strip(), []
    if heading:
        yield heading, details


def _finding(heading: str, details: list[str]) -> SanitizerFinding | None:
    severity = _SEVERITY.match(heading)
    is_warning = bool(severity and severity["warning"])
    what = heading[severity.end() :] if severity else heading
    if race := _RACE.search(what):
        return _race(" ".join([what[race.end() :].strip(), *details]), is_warning=is_warning)
    frames = tuple(_frame(match[1]) for line in details if (match := _AT.match(line)))
    if not frames:
        return None
    facts = [line for line in details if re.match(r"by thread|(Access to|Address) \w+ is |and is ", line)]
    return SanitizerFinding(what.rstrip("."), frames, ", ".join(facts), is_warning)


def _race(text: str, *, is_warning: bool) -> SanitizerFinding | None:
    accesses = [(kind, _frame(_HAZARDS.sub("", place))) for kind, place in _ACCESS.findall(text)]
    if not accesses:
        return None
    (kind, _), *others = accesses
    accessed = " and ".join(dict.fromkeys(f"{each.lower()} at {frame.place}" for each, frame in others))
    hazards = sum(map(int, _HAZARDS.findall(text)))
    what = f"{kind.lower()} races with {accessed or 'itself'}"
    frames = tuple(frame for _, frame in accesses)
    counted = f"{hazards:,} {'hazard' if hazards == 1 else 'hazards'}" if hazards else ""
    return SanitizerFinding(what, frames, counted, is_warning)


def _frame(text: str) -> DeviceFrame:
    text = text.strip()
    if old := _OLD_FUNCTION.match(text):
        return DeviceFrame(old["function"])
    match = _FRAME.match(text)
    assert match is not None  # `function` matches any text
    function = match["last"] or "" if _OFFSET.fullmatch(match["function"]) else match["function"]
    return DeviceFrame(function.strip(), match["file"] or "", int(match["line"] or 0))
