"""Prints outlines of machine code: the outermost loops, and blocks and loops for a language model, within a budget.

The whole code is shown if it fits. Else arithmetic is summed up, `… 12 FFMA, 2 MOV`; else operands are dropped that
name neither memory nor a place in the code; else neighbours of one opcode are joined, without operands. Loads, stores,
waits, atomics, branches and exits stay in each form, in order; a text over the budget in its shortest form says by how
much.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any

from gdnbench.codegen.sass import Instruction
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspect.outline import (
    OutermostLoop,
    Outline,
    OutlinedBlock,
    OutlinedInstruction,
    file_name,
    loops_of,
    outline_kernel,
)
from gdnbench.inspect.quantities import Violation
from gdnbench.ptx.program import SourceLine
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.report.inspect import NOTHING_BUILT, built_of, describe, kernel_document, print_builds, printed
from gdnbench.wording import plural, spans_of

DEFAULT_BUDGET = 2000
"""Default budget, in tokens, of a text for a model."""

_PIECES = re.compile(r"[A-Za-z]{1,3}|\d{1,2}|[^\sA-Za-z0-9]|\n")
_MOST_TOKENS = 9_999_999  # reserves room in the head while its own tokens are counted
_UNIFORM_BASE = re.compile(r"desc\[UR\d+\]")
_FIRST_BANK = re.compile(r"c\[0x0\](?=\[)")
_ADDRESS = re.compile(r"0x[0-9a-f]+$")
_GOES = frozenset({"BRA", "JMP", "CALL", "BSSY"})
_SYNCHRONIZES = frozenset({"BAR", "BSYNC", "DEPBAR", "WARPGROUP"})


class Detail(Enum):
    """Levels of detail, most first; the value describes what the text contains."""

    WHOLE = "every instruction"
    SUMMED = "arithmetic summed up"
    BRIEF = "arithmetic summed up, operands of accesses and branches alone"
    JOINED = "arithmetic summed up, neighbours of one opcode joined, operands left out"


@dataclass(frozen=True)
class View:
    """A text for a model; `tokens` is an estimate, see `estimate_tokens`, and `budget` was requested."""

    text: str
    tokens: int
    budget: int
    detail: Detail

    @property
    def excess(self) -> int:
        """Tokens over the budget, at least 0."""
        return max(0, self.tokens - self.budget)


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text of machine code.

    One token each: up to three letters in a row, up to two digits in a row, any other character, a line break. Spaces
    count with what they precede. Tokenizers join more in English, but not in opcodes and registers.
    """
    return len(_PIECES.findall(text))


def _token_line(tokens: int, budget: int) -> str:
    over = f"; {tokens - budget:,} over, and nothing that must be said is left out" if tokens > budget else ""
    return f"// about {tokens:,} tokens of {budget:,}{over}"


def view_for_model(compiled: CompiledKernel, outline: Outline, budget: int) -> View:
    """Returns a kernel's most detailed view within a budget of tokens, or the shortest if none fits."""
    return choose_view([f"// {describe(compiled)} for {compiled.arch}"], compiled.resources.registers, outline, budget)


def choose_view(head: Sequence[str], registers: int, outline: Outline, budget: int) -> View:
    """Returns an outline's most detailed view within a budget of tokens, else the shortest; `head` comes first."""
    for detail in Detail:
        lines = [*head, *_facts(outline, registers, detail)]
        body = list(_body(outline, detail))
        # The head holds the estimate, which includes the head: count it with the most digits, so that it is not too
        # low.
        tokens = estimate_tokens("\n".join([*lines, _token_line(_MOST_TOKENS, budget), *body, ""]))
        if tokens <= budget:
            break
    return View("\n".join([*lines, _token_line(tokens, budget), *body]), tokens, budget, detail)


def _facts(outline: Outline, registers: int, detail: Detail) -> Iterator[str]:
    known = [(block.live, block.name) for block in outline.blocks if block.live is not None]
    most, where = max(known, key=lambda one: one[0], default=(0, ""))
    live = f"at most {most} live, in {where}" if known else "live ones unknown"
    loops = plural(len(outline.loops), "loop") if outline.loops else "no loops"
    shifts = any(one.instruction.name == "USETMAXREG" for block in outline.blocks for one in block.code)
    changed = "; USETMAXREG changes them for some warps" if shifts else ""
    yield f"// {registers} registers a thread (compiler), {live}{changed}"
    yield f"// {plural(outline.instructions, 'instruction')} in {plural(len(outline.blocks), 'block')}, {loops}"
    main = outline.main_file
    yield f"// shown: {detail.value}; " + (f":N is a line of {main}" if main else "no source lines in the binary")
    yield '// waits LDG #7: for its result; "#7 operands": until it has read them'


def _body(outline: Outline, detail: Detail) -> Iterator[str]:
    around: tuple[str, ...] = ()
    opened: set[str] = set()
    main = outline.main_file
    for block in outline.blocks:
        common = _common(around, block.loops)
        yield from ("}" for _ in around[common:])
        for name in block.loops[common:]:
            yield _loop_line(outline, name, again=name in opened)
            opened.add(name)
        around = block.loops
        yield _block_line(block, main)
        yield from (f" {text}" for text in block_lines(block, outline, detail))
    yield from ("}" for _ in around)


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    return same


def _loop_line(outline: Outline, name: str, *, again: bool) -> str:
    if again:
        return f"loop {name} goes on {{"
    loop = outline.loops[name]
    size = str(loop.shortest) if loop.shortest == loop.longest else f"{loop.shortest}-{loop.longest}"
    latches = ", ".join(outline.blocks[at].name for at in loop.latches)
    return f"loop {name} {{ // {size} instructions a trip, back from {latches}"


def _block_line(block: OutlinedBlock, main: str) -> str:
    live = "" if block.live is None else f", {block.live} live"
    lines = _span([one.line for one in block.code if one.line], main)
    size = plural(len(block.code), "instruction")
    return f"{' '.join((block.name, *block.roles))}: {size}{live}{f', {lines}' if lines else ''}"


def _span(lines: Sequence[SourceLine], main: str) -> str:
    """Returns the span of lines in the file of most of them: `:31-34`, `tile.cuh:7`; empty without lines."""
    if not lines:
        return ""
    name = Counter(map(file_name, lines)).most_common(1)[0][0]
    numbers = [line.line for line in lines if file_name(line) == name]
    first, last = min(numbers), max(numbers)
    return f"{'' if name == main else name}:{first}" + ("" if first == last else f"-{last}")


def block_lines(block: OutlinedBlock, outline: Outline, detail: Detail) -> Iterator[str]:
    """Yields the instructions of a block, one or several per line."""
    main = outline.main_file
    for key, group in groupby(block.code, key=lambda one: _group(one, detail)):
        ones = list(group)
        if key == "computes":
            yield f"… {_summed(ones)}"
        elif len(ones) > 1 and key:
            yield _joined(ones, main)
        else:
            yield from (_line(one, outline, main, detail) for one in ones)


def _group(one: OutlinedInstruction, detail: Detail) -> str:
    """Returns what joins neighbours in one line; empty for an instruction on its own line."""
    if detail is Detail.WHOLE:
        return ""
    if one.computes:
        return "computes"
    goes = one.instruction.name in _GOES
    alone = detail is not Detail.JOINED or goes or one.awaits
    return "" if alone else f"{bool(one.number)} {_opcode(one.instruction)}"


def _summed(ones: Iterable[OutlinedInstruction]) -> str:
    counts = Counter(one.instruction.name for one in ones).most_common()
    return ", ".join(f"{count} {name}" for name, count in counts)


def _joined(ones: Sequence[OutlinedInstruction], main: str) -> str:
    numbers = ranges([one.number for one in ones if one.number])
    lines = _span([one.line for one in ones if one.line and one.accesses], main)
    return f"{numbers} {len(ones)} {_opcode(ones[0].instruction)} {lines}".strip()


def _opcode(one: Instruction) -> str:
    return f"@{one.predicate} {one.opcode}" if one.predicate else one.opcode


def _line(one: OutlinedInstruction, outline: Outline, main: str, detail: Detail) -> str:
    number = f"#{one.number} " if one.number else ""
    whole = instruction_text(one.instruction, outline)
    text = whole if _has_operands(one, detail) else _opcode(one.instruction)
    line = f" {_span([one.line], main)}" if one.line and one.accesses else ""
    waits = ", ".join(awaited_text(one))
    return f"{number}{text}{line}{f'  waits {waits}' if waits else ''}"


def _has_operands(one: OutlinedInstruction, detail: Detail) -> bool:
    if detail in {Detail.WHOLE, Detail.SUMMED}:
        return True
    return one.instruction.name in _GOES | _SYNCHRONIZES or (detail is Detail.BRIEF and one.accesses)


def instruction_text(one: Instruction, outline: Outline) -> str:
    """Returns an instruction without hardware-only details; branches name blocks."""
    operands = _FIRST_BANK.sub("c", _UNIFORM_BASE.sub("", one.operands.replace(".reuse", "")))
    if one.name in _GOES and (address := _ADDRESS.search(operands)):
        operands = operands[: address.start()] + outline.targets.get(int(address[0], 16), address[0])
    return f"{_opcode(one)} {operands}".rstrip()


def awaited_text(one: OutlinedInstruction) -> Iterator[str]:
    """Yields what an instruction waits for: `LDG #2-#8`, `STG #9 operands`."""
    kinds: dict[tuple[str, bool], list[int]] = {}
    for other, hold in one.awaits:
        kinds.setdefault((other.instruction.name, hold.reads), []).append(other.number)
    for (name, reads), numbers in kinds.items():
        yield f"{name} {ranges(numbers)}{' operands' if reads else ''}"


def ranges(numbers: Iterable[int]) -> str:
    """Formats ascending numbers with neighbours as ranges: `#1 #3-#5`."""
    return " ".join(f"#{first}" if first == last else f"#{first}-#{last}" for first, last in spans_of(numbers))


def print_for_model(outcomes: Sequence[BuildOutcome], broken: Sequence[Violation], budget: int, *, json: bool) -> None:
    """Prints each build's view within a budget of tokens; raises MachineError if `nvdisasm` is absent or fails."""
    views = {
        place: view_for_model(outcome, outline_kernel(outcome), budget)
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, CompiledKernel)
    }
    answer = Answer(
        text=lambda _width: [printed("\n\n".join(view.text for view in views.values()))] if views else [],
        document=lambda: [
            kernel_document(outcome, broken) | ({"for_model": _document(views[place])} if place in views else {})
            for place, outcome in enumerate(outcomes)
        ],
    )
    print_builds(answer, outcomes, broken, json=json)


def _document(view: View) -> dict[str, Any]:
    return {
        "budget": view.budget,
        "tokens": view.tokens,
        "over": view.excess,
        "shown": view.detail.value,
        "text": view.text,
    }


_LOOPS_LEGEND = (
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
            *(block for each in found for block in _loop_text(*each)),
            *([] if found else [NOTHING_BUILT]),
        ],
        document=lambda: [
            (doc := kernel_document(each, broken)) | loops.get(doc.get("cubin", ""), {}) for each in outcomes
        ],
        next=["gdnbench", "inspect", first.subject.name, "--arch", first.arch, "--sass"] if first else None,
    )
    print_builds(answer, outcomes, broken, json=json)


def _loop_text(compiled: CompiledKernel, loops: Sequence[OutermostLoop]) -> Iterator[Block]:
    yield Note(f"{describe(compiled)} for {compiled.arch}", "title")
    if loops:
        yield Table(_LOOP_COLUMNS, loops, notes=[Note(_LOOPS_LEGEND, "legend")])
    else:
        yield Note("no loops: each instruction is issued once at most")


def _trip(loop: OutermostLoop) -> str:
    least, most = loop.trip.shortest, loop.trip.longest
    return str(least) if least == most else f"{least}-{most}"


_LOOP_COLUMNS: Sequence[Column[OutermostLoop]] = [
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
