"""Reads ncu's raw page as CSV (`ncu --import FILE --csv --page raw`), with numbers in any locale's notation.

The page has two header lines, names and units, then a line for each launch. It rounds plain numbers to two decimals.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from gdnbench.errors import ReportFormatError
from gdnbench.profile.ncu.command import failure_of
from gdnbench.profile.ncu.profile import GPU_NAME, LaunchProfile, Metric, Value, is_stored
from gdnbench.profile.ncu.quantities import check_value
from gdnbench.profile.ncu.store import WHAT_IS_READ
from gdnbench.profile.process import DOMAIN, NvtxRange, parse_range_name, run_command

DecimalMark = Literal[".", ","]

_SPACES = str.maketrans("", "", "\u00a0\u202f\u2009'\u2019")  # group separators that are neither mark
_EXPONENT = r"(e[-+]?\d+)?"
_PLAIN = {
    ".": re.compile(rf"[-+]?([\d,]*\.?\d+{_EXPONENT}|nan|inf)", re.IGNORECASE),
    ",": re.compile(rf"[-+]?([\d.]*,?\d+{_EXPONENT}|nan|inf)", re.IGNORECASE),
}


def decimal_mark(texts: Iterable[str]) -> DecimalMark:
    """Returns the decimal mark of numbers written in one locale; a dot if no number decides.

    Three digits behind a mark may be a group or decimals; any other number of digits, or two marks, decide. Raises
    ValueError if numbers decide for both marks, or one has a dot before three digits and none decides.
    """
    decided: dict[DecimalMark, str] = {}
    unsure = ""
    for text in texts:
        number = text.translate(_SPACES)
        for mark in (found for found in _marks() if _tells(number, found)):
            decided.setdefault(mark, text)
        if re.fullmatch(r"[-+]?\d{1,3}\.\d{3}", number):
            unsure = unsure or text
    if len(decided) > 1:
        raise ValueError(f"its numbers are of two locales: {decided['.']} and {decided[',']}")
    if unsure and not decided:
        raise ValueError(f"its numbers do not tell whether {unsure} is more than a thousand")
    return next(iter(decided), ".")


def _marks() -> tuple[DecimalMark, DecimalMark]:
    return ".", ","


def _tells(number: str, mark: DecimalMark) -> bool:
    """Whether a number can be read with this decimal mark only."""
    decimals, groups = re.escape(mark), re.escape("," if mark == "." else ".")
    grouped = rf"\d{{1,3}}({groups}\d{{3}})"
    patterns = (
        rf"\d*{decimals}(\d{{1,2}}|\d{{4,}}){_EXPONENT}",  # 71.50
        rf"{grouped}+{decimals}\d+{_EXPONENT}",  # 1,024.5
        rf"{grouped}{{2,}}",  # 33,554,432
        rf"\d{{4,}}{decimals}\d+{_EXPONENT}",  # 1024.125
        rf"0{decimals}\d+{_EXPONENT}",  # 0.125
    )
    return any(re.fullmatch(rf"[-+]?{pattern}", number, re.IGNORECASE) for pattern in patterns)


def parse_number(text: str, mark: DecimalMark) -> float | None:
    """Returns the number that a text is with this decimal mark, or None if it is not a number."""
    number = text.translate(_SPACES)
    if not _PLAIN[mark].fullmatch(number):
        return None
    groups = "," if mark == "." else "."
    return float(number.replace(groups, "").replace(mark, "."))


_FIRST = '"ID","Process ID"'
_NEEDED = ("Kernel Name", "CC")
_STACK = "Push/Pop_Range"
_OF_DETAILS = "Metric Name"  # a column of the details page, which has a line for each metric
_EXPORT_RAW = "export it as `LC_ALL=C ncu --import REPORT --csv --page raw`"
_IMPORT_LIMIT_S = 300.0
_PREAMBLE = 20_000  # characters searched for the page's first line
_SECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIXED = re.compile(r"([KMGT])(byte|hz)(/.+)?")


def is_page(text: str) -> bool:
    """Whether a text is a raw page; messages of ncu or a shell may precede it."""
    return any(line.startswith(_FIRST) for line in text[:_PREAMBLE].splitlines())


def export_page(ncu: Path, path: Path) -> tuple[LaunchProfile, ...]:
    """Reads a report through ncu itself; raises ProfilerError if ncu cannot read it."""
    command = [str(ncu), "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    ended = run_command(command, limit_s=_IMPORT_LIMIT_S)
    if ended.returncode:
        raise failure_of(ended)
    return parse_page(ended.output, path)


def parse_page(text: str, path: Path) -> tuple[LaunchProfile, ...]:
    """Reads the text of a raw page; raises ReportFormatError, naming `path`, if a cell is missing or impossible."""
    start = text.find(_FIRST)
    if start < 0:
        return ()
    lines = (line for line in text[start:].splitlines(keepends=True) if not line.startswith("=="))  # ncu's messages
    try:
        heads, *rest = csv.reader(lines, strict=True)
        if _OF_DETAILS in heads:
            raise ReportFormatError(f"{path} is ncu's details page, and its raw page is read", _EXPORT_RAW)
        if missing := [head for head in _NEEDED if head not in heads]:
            raise ReportFormatError(f"{path}: ncu's page lacks the column {missing[0]}", WHAT_IS_READ)
        if not rest or any(len(cells) != len(heads) for cells in rest):
            raise ReportFormatError(f"{path}: ncu's page is cut off", WHAT_IS_READ)
        units, *launches = rest
        counted: Counter[tuple[str, str]] = Counter()
        mark = _decimal_mark_of(heads, launches, path)
        return tuple(_profile_of(heads, units, cells, counted, mark) for cells in launches)
    except (ValueError, csv.Error) as error:
        raise ReportFormatError(f"{path}: ncu's page cannot be read: {error}", WHAT_IS_READ) from error


def _decimal_mark_of(heads: Sequence[str], launches: Sequence[Sequence[str]], path: Path) -> DecimalMark:
    """Returns the page's decimal mark, which follows ncu's locale; raises ReportFormatError if no number decides."""
    rows = [dict(zip(heads, cells, strict=True)) for cells in launches]
    cells = [_total(cell) for row in rows for name, cell in row.items() if _is_metric(name) and is_stored(name)]
    whole = [size for row in rows for size in re.findall(r"[\d.]+", row.get("Grid Size", "")) if "." in size]
    try:
        # Grid sizes are integers, so a dot in one separates groups; one group more makes that unambiguous.
        return decimal_mark([*cells, *(f"{size}.000" for size in whole)])
    except ValueError as error:
        raise ReportFormatError(f"{path}: {error}", _EXPORT_RAW) from error


def _profile_of(
    heads: Sequence[str],
    units: Sequence[str],
    cells: Sequence[str],
    counted: Counter[tuple[str, str]],
    mark: DecimalMark,
) -> LaunchProfile:
    row = dict(zip(heads, cells, strict=True))
    named = _named(row)
    function = _bare(row["Kernel Name"])
    counted[named.label, function] += 1
    return LaunchProfile(
        label=named.label,
        op=named.op,
        workload=named.workload,
        gpu=row.get(GPU_NAME, ""),
        arch=f"sm_{row['CC'].replace('.', '')}",
        function=function,
        launch=counted[named.label, function] - 1,
        metrics={metric.name: metric for metric in _metrics(heads, units, cells, mark)},
        source=named.source,
    )


def _named(row: Mapping[str, str]) -> NvtxRange:
    """Parses the NVTX ranges, one quoted text each: `629  "gdnbench:decode decode-v1 B=1 qk4_v8:none:…"`."""
    texts = [cell for head, cell in row.items() if _STACK in head]
    inside = [part for text in texts for part in re.findall(rf'"{DOMAIN}:([^"]*)"', text)]
    return next(filter(None, map(_parse_range, inside)), NvtxRange())


def _parse_range(text: str) -> NvtxRange | None:
    """Parses a range of the page: its name, five words about it, and its message, which repeats the name.

    The name may hold colons, as in `decode-triton:BV=16`.
    """
    parts = text.split(":")
    return parse_range_name(":".join(parts[: (len(parts) - 5) // 2]))


def _bare(function: str) -> str:
    """Returns a function's name without types, templates and arguments: `void at::f<int>(float *)` gives `f`."""
    flat = function
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", flat)) != flat:
        flat = shorter
    return flat.split()[-1].rpartition("::")[2] if flat.strip() else function


def _metrics(heads: Sequence[str], units: Sequence[str], cells: Sequence[str], mark: DecimalMark) -> Iterator[Metric]:
    for name, unit, cell in zip(heads, units, cells, strict=True):
        if _is_metric(name) and is_stored(name) and cell:
            value = _value_of(cell, mark)
            if isinstance(value, float):
                value, unit = to_base(value, unit)  # noqa: PLW2901
            check_value(name, value)
            yield Metric(name, unit, value)


def _is_metric(name: str) -> bool:
    """Whether a column is a metric: other columns describe the launch and have spaces or capitals in their names."""
    return (name == name.lower() and " " not in name) or "." in name


def _value_of(cell: str, mark: DecimalMark) -> Value:
    """Parses a cell in the locale's notation; for a metric with instances, `9 (1; 2; 6)`, returns the total."""
    number = parse_number(_total(cell), mark)
    return cell if number is None else number


def _total(cell: str) -> str:
    return cell.partition(" (")[0]


def to_base(value: float, unit: str) -> tuple[float, str]:
    """Converts to ncu's base unit, as `--print-units base` does: nanoseconds, bytes and hertz, without prefixes.

    A Kbyte of ncu is 1000 bytes: base values in reports are 1000 times those of the page.
    """
    if unit in _SECONDS:
        return value * _SECONDS[unit], "ns"
    above, slash, below = unit.partition("/")
    if slash and below in _SECONDS:
        base, base_unit = to_base(value, above)
        return base * (1e9 / _SECONDS[below]), f"{base_unit}/s"
    if match := _PREFIXED.fullmatch(unit):
        return value * _PREFIXES[match.group(1)], f"{match.group(2)}{match.group(3) or ''}"
    return value, unit
