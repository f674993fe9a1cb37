"""Reads ncu's raw page as CSV: `ncu --import FILE --csv --page raw`.

Two lines of heads, names and units, then a line for each launch. The page rounds: a bare number has two decimals.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gdnbench.errors import ReportFormatError
from gdnbench.model import Shape
from gdnbench.profilers.ncu.failures import failure_of
from gdnbench.profilers.ncu.keep import GPU_NAME, is_kept
from gdnbench.profilers.ncu.profile import Metric, Profile, Value
from gdnbench.profilers.ncu.store import WHAT_IS_READ, open_text
from gdnbench.profilers.ncu.units import to_base
from gdnbench.profilers.process import run_command
from gdnbench.profilers.ranges import DOMAIN, parse_name

_FIRST = '"ID","Process ID"'
_STACK = "Push/Pop_Range"
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?|nan|inf", re.IGNORECASE)
_IMPORT_LIMIT_S = 300.0


def is_page(path: Path) -> bool:
    """Whether a file is a raw page; what a shell put in front of it, ncu's messages, does not matter."""
    try:
        with open_text(path, "rt") as file:
            return any(line.startswith(_FIRST) for line in file.readlines(10_000))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error):
        return False


def read_page(path: Path) -> tuple[Profile, ...]:
    """Reads a raw page from a file.

    Raises:
        ReportFormatError: if it cannot be read or is cut off.
    """
    try:
        with open_text(path, "rt") as file:
            return parse_page(file.read())
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", WHAT_IS_READ) from error


def export_page(ncu: Path, path: Path) -> tuple[Profile, ...]:
    """Reads a report through ncu itself.

    Raises:
        ProfilerError: if ncu cannot read it.
    """
    command = [str(ncu), "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    ended = run_command(command, limit_s=_IMPORT_LIMIT_S)
    if ended.returncode:
        raise failure_of(ended)
    try:
        return parse_page(ended.output)
    except csv.Error as error:
        raise ReportFormatError(f"{path}: ncu's page cannot be read: {error}", WHAT_IS_READ) from error


def parse_page(text: str) -> tuple[Profile, ...]:
    """Reads the text of a raw page.

    Raises:
        ReportFormatError: if a line lacks cells.
    """
    start = text.find(_FIRST)
    if start < 0:
        return ()
    lines = (line for line in text[start:].splitlines(keepends=True) if not line.startswith("=="))  # ncu's messages
    heads, *rest = csv.reader(lines, strict=True)
    if not rest or any(len(cells) != len(heads) for cells in rest):
        raise ReportFormatError("ncu's page is cut off", WHAT_IS_READ)
    units, *launches = rest
    counted: Counter[tuple[str, str]] = Counter()
    return tuple(_profile_of(heads, units, cells, counted) for cells in launches)


def _profile_of(
    heads: Sequence[str], units: Sequence[str], cells: Sequence[str], counted: Counter[tuple[str, str]]
) -> Profile:
    row = dict(zip(heads, cells, strict=True))
    op, label, shape = _named(row)
    function = _bare(row["Kernel Name"])
    counted[label, function] += 1
    return Profile(
        label=label,
        op=op,
        shape=shape,
        gpu=row.get(GPU_NAME, ""),
        arch=f"sm_{row['CC'].replace('.', '')}",
        function=function,
        launch=counted[label, function] - 1,
        metrics={metric.name: metric for metric in _metrics(heads, units, cells)},
    )


def _named(row: Mapping[str, str]) -> tuple[str, str, Shape | None]:
    """What the ranges say: `629  "gdnbench:decode decode-v1 B=1 qk4_v8:none:…"`, one text in quotes each."""
    texts = [cell for head, cell in row.items() if _STACK in head]
    inside = [part for text in texts for part in re.findall(rf'"{DOMAIN}:([^"]*)"', text)]
    return next(filter(None, map(_parse_range, inside)), ("", "", None))


def _parse_range(text: str) -> tuple[str, str, Shape] | None:
    """A range as the page has it: its name, five words on it, and its message, which is the name again.

    The name may hold colons itself, as in `decode-triton:BV=16`.
    """
    parts = text.split(":")
    return parse_name(":".join(parts[: (len(parts) - 5) // 2]))


def _bare(function: str) -> str:
    """A function's name without types, templates and arguments: `void at::f<int>(float *)` gives `f`."""
    flat = function
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", flat)) != flat:
        flat = shorter
    return flat.split()[-1].rpartition("::")[2] if flat.strip() else function


def _metrics(heads: Sequence[str], units: Sequence[str], cells: Sequence[str]) -> Iterator[Metric]:
    for name, unit, cell in zip(heads, units, cells, strict=True):
        if _is_metric(name) and is_kept(name) and cell:
            value = _value_of(cell)
            if isinstance(value, float):
                value, unit = to_base(value, unit)  # noqa: PLW2901
            yield Metric(name, unit, value)


def _is_metric(name: str) -> bool:
    """Whether a column is a metric: the others describe the launch, and have blanks or capitals in their names."""
    return (name == name.lower() and " " not in name) or "." in name


def _value_of(cell: str) -> Value:
    """A number; ncu writes 1,792 where the locale says so. Of a metric with instances, `9 (1; 2; 6)`, the total."""
    total = cell.partition(" (")[0]
    return float(total.replace(",", "")) if _NUMBER.fullmatch(total) else cell
