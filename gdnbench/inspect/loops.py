"""The basic blocks and loops of a kernel's machine code: what a trip takes, and of which source line each is.

A block is entered at its first instruction alone and left behind its last. A loop is a natural one (Aho, Lam, Sethi and
Ullman, "Compilers", on flow graphs): a branch back to a block that dominates the branch, and the blocks between. A jump
back from code that stands out of line, as retries of a wait do, makes no loop.

A call goes to what it calls and to what follows it; where a return goes is not followed. Computed targets (BRX) are
unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gdnbench.codegen.cubin import read_source_lines
from gdnbench.codegen.sass import Instruction, family_of, family_order
from gdnbench.codegen.schedule import address_operand, is_unconditional, read_schedule
from gdnbench.inspect.compiled import CompiledKernel
from gdnbench.ptx.program import SourceLine

_BRANCHES = frozenset({"BRA", "JMP", "CALL"})
_COMPUTED = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_ENDS = frozenset({"EXIT", "RET", "KILL"})
# BSYNC waits for the threads of its barrier register, and goes on where the BSSY that set it says.
_LAST = _BRANCHES | _COMPUTED | _ENDS | {"BSYNC"}


@dataclass(frozen=True)
class Block:
    """A basic block: the indices of its instructions, and those of the blocks that may run next, if any."""

    places: range
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop, by the indices of its blocks, those of inner loops included."""

    header: int  # through which it is entered
    blocks: frozenset[int]
    latches: tuple[int, ...]  # which go back to the header
    shortest: int  # instructions of an iteration, with an inner loop passed once
    longest: int


def read_blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    """Returns the blocks of a kernel in the order of their addresses; `code` is without padding."""
    targets = _targets(code)
    starts = {0, *targets.values()}
    starts |= {place + 1 for place, one in enumerate(code[:-1]) if one.name in _LAST}
    bounds = [*sorted(starts), len(code)] if code else []
    number = {start: at for at, start in enumerate(bounds[:-1])}
    return tuple(
        Block(range(start, stop), tuple(number[place] for place in _next(code, targets, stop - 1)))
        for start, stop in pairwise(bounds)
    )


def _targets(code: Sequence[Instruction]) -> dict[int, int]:
    """Returns the index that each branch, call and BSYNC goes to, by its own; only those within the code."""
    places = {int(one.address, 16): place for place, one in enumerate(code)}
    by_place: dict[int, int] = {}
    joins: dict[str, int] = {}  # by barrier register: where its threads go on, by the latest BSSY before
    for place, one in enumerate(code):
        address = address_operand(one)
        target = None if address is None else places.get(address)
        if one.name == "BSYNC":
            target = joins.get(one.operands)
        if target is None:
            continue
        if one.name == "BSSY":
            joins[one.operands.partition(",")[0]] = target
        elif one.name in _BRANCHES or one.name == "BSYNC":
            by_place[place] = target
    return by_place


def _next(code: Sequence[Instruction], targets: dict[int, int], place: int) -> Iterator[int]:
    one, target = code[place], targets.get(place)
    if target is not None:
        yield target
    ends = one.name in _ENDS | _COMPUTED or (one.name in {"BRA", "JMP"} and is_unconditional(one))
    joined = one.name == "BSYNC" and target is not None
    goes_on = bool(one.predicate) or not (ends or joined)
    if goes_on and place + 1 < len(code) and target != place + 1:
        yield place + 1


def find_loops(blocks: Sequence[Block]) -> tuple[Loop, ...]:
    """Returns the loops in the order of their headers; branches back to one header are one loop."""
    order, roots = _order(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for at, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].append(at)
    dominators = _dominators(order, roots, before)
    latches: dict[int, list[int]] = {}
    for at, block in enumerate(blocks):
        for successor in block.successors:
            if dominators[at] >> successor & 1:
                latches.setdefault(successor, []).append(at)
    return tuple(_loop(blocks, order, before, header, latches[header]) for header in sorted(latches))


def _loop(
    blocks: Sequence[Block], order: Sequence[int], before: Sequence[Sequence[int]], header: int, latches: list[int]
) -> Loop:
    body, open_blocks = {header}, list(latches)
    while open_blocks:
        at = open_blocks.pop()
        if at not in body:
            body.add(at)
            open_blocks.extend(before[at])
    shortest, longest = _trip(blocks, [at for at in order if at in body], header, latches)
    return Loop(header, frozenset(body), tuple(latches), shortest, longest)


def _trip(blocks: Sequence[Block], order: Sequence[int], header: int, latches: Sequence[int]) -> tuple[int, int]:
    """Returns the instructions of the shortest and longest path from a header to a latch, without jumps back."""
    rank = {at: place for place, at in enumerate(order)}
    ways = {header: (len(blocks[header].places),) * 2}
    for at in order:
        if at not in ways:
            continue
        for successor in blocks[at].successors:
            if rank.get(successor, -1) > rank[at]:
                fewest, most = (instructions + len(blocks[successor].places) for instructions in ways[at])
                known = ways.get(successor, (fewest, most))
                ways[successor] = (min(known[0], fewest), max(known[1], most))
    ends = [ways[latch] for latch in latches]
    return min(fewest for fewest, _ in ends), max(most for _, most in ends)


def _order(blocks: Sequence[Block]) -> tuple[list[int], set[int]]:
    """Returns blocks in reverse postorder, and its roots: the first block, and those that no known path leads to."""
    visited: set[int] = set()
    roots: set[int] = set()
    order: list[int] = []
    for root in range(len(blocks)):
        if root in visited:
            continue
        roots.add(root)
        done: list[int] = []
        stack = [(root, False)]
        while stack:
            at, is_done = stack.pop()
            if is_done:
                done.append(at)
            elif at not in visited:
                visited.add(at)
                stack.append((at, True))
                stack.extend((successor, False) for successor in reversed(blocks[at].successors))
        order = [*reversed(done), *order]
    return order, roots


def _dominators(order: Sequence[int], roots: set[int], before: Sequence[Sequence[int]]) -> list[int]:
    every = (1 << len(order)) - 1
    dominators = [1 << at if at in roots else every for at in range(len(order))]
    changed = True
    while changed:
        changed = False
        for at in order:
            if at in roots:
                continue
            common = every
            for one in before[at]:
                common &= dominators[one]
            common |= 1 << at
            changed |= common != dominators[at]
            dominators[at] = common
    return dominators


Frames = Mapping[int, Sequence[SourceLine]]  # by address; the innermost line first, then its callers'


@dataclass(frozen=True)
class OutermostLoop:
    """A loop that lies in no other; its trip is a tile in a persistent kernel, where each role may have its own."""

    line: SourceLine | None  # the source line of the branch back, its `for` or `while`; None if unknown
    trip: Loop  # its blocks, and the instructions of its shortest and its longest trip
    within: int  # number of loops in it
    families: Mapping[str, int]  # instructions by family, those of inner loops counted once

    @property
    def instructions(self) -> int:
        """Number of instructions in its code."""
        return sum(self.families.values())


def loops_of(compiled: CompiledKernel) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of a compiled kernel, in address order; raises MachineError if `nvdisasm` fails."""
    return outermost_loops(compiled.sass, read_source_lines(Path(compiled.build.cubin), compiled.build.symbol))


def outermost_loops(sass: str, frames: Frames) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of `sass`, the output of `cuobjdump -sass` with encodings.

    `frames` has source lines by address. Raises MachineError if encodings are missing.
    """
    code = [one.instruction for one in read_schedule(sass).code]
    blocks = read_blocks(code)
    loops, lines = find_loops(blocks), _lines_of(frames)
    found = []
    for loop in loops:
        if any(loop.blocks < other.blocks for other in loops):
            continue
        counts = Counter(family_of(code[place]) for at in sorted(loop.blocks) for place in blocks[at].places)
        families = {name: counts[name] for name in sorted(counts, key=family_order)}
        back = code[blocks[loop.latches[0]].places[-1]]
        within = sum(other.blocks < loop.blocks for other in loops)
        found.append(OutermostLoop(lines.get(int(back.address, 16)), loop, within, families))
    return tuple(found)


def _lines_of(frames: Frames) -> dict[int, SourceLine]:
    """Returns by address the innermost line in the file that has the most distinct lines, else the innermost of all.

    That file's lines distinguish most instructions: of a kernel that only calls a header's function, the header; of one
    that loads through a helper, the file with the calls of the helper.
    """
    innermost = {address: {line.file: line for line in reversed(one)} for address, one in frames.items()}
    distinct = {line for lines in innermost.values() for line in lines.values()}
    counts = Counter(sorted(line.file for line in distinct))  # sorted, so that ties are deterministic
    main = counts.most_common(1)[0][0] if counts else ""
    return {address: innermost[address].get(main, one[0]) for address, one in frames.items()}
