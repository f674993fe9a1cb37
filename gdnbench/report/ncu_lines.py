"""Prints `gdnbench ncu --lines`: what each source line of a launch costs, and its instructions of most samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gdnbench.profile.ncu.functions import Function
from gdnbench.profile.ncu.lines import COUNTED, ProfiledInstruction, ProfiledLine, profiled_lines
from gdnbench.profile.ncu.quantities import STALL_MEANINGS
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import CodeOf, other_code, percent
from gdnbench.report.ncu import is_changed, subject

_MOST_LINES, _MOST_INSTRUCTIONS = 12, 3
_LEGEND = (
    "samples: of warps that stood at it, and why most of them did; executed: by warps; sectors of global memory, "
    "and wavefronts of shared memory, in brackets those that no coalesced or conflict-free access would need. "
    "A wait counts for the instruction that waits, not for the load that it waits for."
)
Row = tuple[str, ProfiledLine]
"""A source line or, as a line of its own, one of its instructions, under its title."""


def lines_answer(
    functions: Sequence[Function], found: Mapping[Path, Sequence[ProfiledInstruction]], code_of: CodeOf
) -> Answer:
    """Returns the source lines of each function's first launch; `found` has the instructions of each report."""
    lines = [(each, profiled_lines(found[each.path], each.name)) for each in functions]
    label, workload = functions[0].label, functions[0].workload
    return Answer(
        text=lambda _width: [block for each, its in lines for block in _blocks(each, its, code_of)],
        document=lambda: [_document(each, its) for each, its in lines],
        next=["gdnbench", "inspect", label, *workload.options, "--sass"] if label and workload else [],
    )


def _blocks(function: Function, lines: Sequence[ProfiledLine], code_of: CodeOf) -> Iterator[Block]:
    samples = sum(line.total("samples") for line in lines)
    count = sum(len(line.instructions) for line in lines)
    yield Note(f"{subject(function)}: {function.name}", "title")
    yield Note(f"{samples:,} samples of warps at {count:,} instructions of {len(lines):,} source lines", "legend")
    if is_changed(function, code_of):
        yield Note(other_code(function.label), "warning")
    rows = [row for line in lines[:_MOST_LINES] for row in _rows(line)]
    yield Table(_columns(rows, max(samples, 1)), rows)
    if len(lines) > _MOST_LINES:
        rest = sum(line.total("samples") for line in lines[_MOST_LINES:]) / max(samples, 1)
        yield Note(f"{len(lines) - _MOST_LINES} further lines have {percent(rest)} of the samples", "legend")
    for reason in dict.fromkeys(line.stall[0] for line in lines[:_MOST_LINES]):
        if reason in STALL_MEANINGS:
            yield Note(f"{reason}: {STALL_MEANINGS[reason]}", "legend")
    yield Note(_LEGEND, "legend")


def _rows(line: ProfiledLine) -> Iterator[Row]:
    yield line.line or "no line", line
    for each in line.instructions[:_MOST_INSTRUCTIONS]:
        if each.samples or each.sectors or each.wavefronts:
            yield f"  {each.address:04x} {each.sass}", ProfiledLine(line.line, (each,))


def _columns(rows: Sequence[Row], samples: int) -> list[Column[Row]]:
    def counter(name: str, drop: int = 0) -> Column[Row]:
        return Column("", lambda row: row[1].total(name), name, lambda row: _counted(row[1], name), drop, right=True)

    def share(row: Row) -> str:
        return percent(row[1].total("samples") / samples) if row[1].total("samples") else ""

    def stall(row: Row) -> str:
        reason, part = row[1].stall
        return f"{reason} {percent(part)}" if 0 < part < 1 else reason

    return [
        Column("", lambda row: row[0], "line, its instructions", rest=True),
        Column("", share, "samples", right=True),
        Column("", stall, "most wait for"),
        counter("executed", 2),
        *(counter(name, 1) for name in ("sectors", "wavefronts") if any(row[1].total(name) for row in rows)),
    ]


def _counted(line: ProfiledLine, name: str) -> str:
    """Formats a counter, with what of it is not needed; empty for 0."""
    value = line.total(name)
    excess = value - line.total(f"ideal_{name}") if f"ideal_{name}" in COUNTED else 0
    return f"{value:,} ({excess:,})" if excess > 0 else f"{value:,}" if value else ""


def _document(function: Function, lines: Sequence[ProfiledLine]) -> dict[str, Any]:
    return {
        **{"kernel": function.label, "function": function.name, "gpu": function.gpu, "report": str(function.path)},
        "lines": [
            {
                "line": line.line,
                **{name: line.total(name) for name in COUNTED},
                "stall": line.stall[0],
                "instructions": [msgspec.to_builtins(each) for each in line.instructions],
            }
            for line in lines
        ],
    }
