"""Prints `gdnbench inspect --loops`: the outermost loops of each build, and what a trip of each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspect.loops import OutermostLoop, loops_of
from gdnbench.inspect.quantities import Violation
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.report.inspect import NOTHING_BUILT, built_of, describe, kernel_document, print_builds

_LEGEND = (
    "loops that lie in no other, by the line that goes back; a trip: instructions\n"
    "on the shortest and on the longest way round; what the loop has: all of its\n"
    "code, that of loops within it once"
)


def print_loops(outcomes: Sequence[BuildOutcome], broken: Sequence[Violation], *, json: bool) -> None:
    """Prints the loops of each build; raises MachineError if `nvdisasm` is absent or cannot read a cubin."""
    found = [(compiled, loops_of(compiled)) for compiled in built_of(outcomes)]
    loops = {compiled.build.cubin: {"loops": list(map(_loop, each))} for compiled, each in found}
    first = found[0][0] if found else None
    answer = Answer(
        text=lambda _width: [
            *(block for each in found for block in _text(*each)),
            *([] if found else [NOTHING_BUILT]),
        ],
        document=lambda: [
            (doc := kernel_document(each, broken)) | loops.get(doc.get("cubin", ""), {}) for each in outcomes
        ],
        next=["gdnbench", "inspect", first.subject.name, "--arch", first.arch, "--sass"] if first else None,
    )
    print_builds(answer, outcomes, broken, json=json)


def _text(compiled: CompiledKernel, loops: Sequence[OutermostLoop]) -> Iterator[Block]:
    yield Note(f"{describe(compiled)} for {compiled.arch}", "title")
    if loops:
        yield Table(_COLUMNS, loops, notes=[Note(_LEGEND, "legend")])
    else:
        yield Note("no loops: each instruction is issued once at most")


def _trip(loop: OutermostLoop) -> str:
    least, most = loop.trip.shortest, loop.trip.longest
    return str(least) if least == most else f"{least}-{most}"


_COLUMNS: Sequence[Column[OutermostLoop]] = [
    Column("", lambda loop: loop, "loop", lambda loop: str(loop.line or "line unknown")),
    Column("", lambda loop: loop, "a trip", _trip, right=True),
    Column(
        "",
        lambda loop: loop,
        "what the loop has",
        lambda loop: ", ".join(f"{count} {name}" for name, count in loop.families.items()),
        fold=True,
    ),
]


def _loop(loop: OutermostLoop) -> dict[str, Any]:
    return {
        "line": str(loop.line) if loop.line else None,
        "shortest_trip_instructions": loop.trip.shortest,
        "longest_trip_instructions": loop.trip.longest,
        "loops_within": loop.within,
        "instructions": loop.instructions,
        "families": dict(loop.families),
    }
