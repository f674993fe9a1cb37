"""An outline of a kernel's machine code: blocks and loops, dependencies, live registers, source lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.codegen.cubin import read_live_registers, read_source_lines
from gdnbench.codegen.graph import Block, Hold, Loop, awaited_along, find_loops, holds_something, read_blocks
from gdnbench.codegen.sass import Instruction, family_of, family_order
from gdnbench.codegen.schedule import EncodedInstruction, read_schedule
from gdnbench.inspect.compiled import CompiledKernel
from gdnbench.ptx.program import SourceLine

Frames = Mapping[int, Sequence[SourceLine]]  # by address; the innermost line first, then its callers'


def main_file(frames: Frames) -> str:
    """Returns the file with the most distinct lines; empty if none is known.

    Its lines distinguish most instructions: of a kernel that only calls a header's function, the header; of one that
    loads through a helper, the file with the calls of the helper.
    """
    lines = {own for one in frames.values() for own in _innermost(one).values()}
    counts = Counter(sorted(line.file for line in lines))  # sorted, so that ties are deterministic
    return counts.most_common(1)[0][0] if counts else ""


def _lines_of(frames: Frames, main: str) -> dict[int, SourceLine]:
    """Returns by address the innermost line in the main file, else the innermost of all."""
    return {address: _innermost(one).get(main, one[0]) for address, one in frames.items()}


def _innermost(frames: Sequence[SourceLine]) -> dict[str, SourceLine]:
    return {line.file: line for line in reversed(frames)}


def file_name(line: SourceLine) -> str:
    """Returns the line's file name, without folders."""
    return Path(line.file).name


# Families that may be summed up where nothing waits: they compute on registers only. Every other family, unnamed
# opcodes included, is always listed.
_ARITHMETIC = frozenset({
    "fp32 fma", "fp32 add", "fp32 multiply", "fp32 other", "fp16/bf16", "fp64", "special function", "conversion",
    "shuffle", "vote", "tensor core", "comparison", "move", "integer and address",
})  # fmt: skip
_MEMORY_WORDS = ("load", "store", "copy", "atomic", "shared matrix move")


@dataclass(frozen=True)
class OutlinedInstruction:
    """One instruction."""

    instruction: Instruction
    number: int  # from 1, by which waits name it; 0 if nothing waits for it and it does not access memory
    awaits: tuple[tuple[OutlinedInstruction, Hold], ...]  # the instructions that it may wait for, and until when each
    accesses: bool  # whether it reads or writes memory other than the constants
    computes: bool  # whether it is arithmetic that waits for nothing and that nothing waits for
    line: SourceLine | None  # of the source; None if unknown


@dataclass(frozen=True)
class OutlinedBlock:
    """A basic block, named by its position in the code (`BB0`), and the loops around it, outermost first."""

    name: str
    roles: tuple[str, ...]  # of `entry`, `barrier`, `call`, `return` and `exit`
    code: tuple[OutlinedInstruction, ...]
    live: int | None  # the most live registers of a thread; None if unknown
    loops: tuple[str, ...]
    successors: tuple[str, ...]  # names of the blocks that may follow


@dataclass(frozen=True)
class Outline:
    """A kernel's machine code: blocks in the order of their addresses, and loops by name (`L1`)."""

    blocks: tuple[OutlinedBlock, ...]
    loops: Mapping[str, Loop]
    targets: Mapping[int, str]  # block names by start address
    main_file: str  # of the most lines; empty if the cubin has no line table

    @property
    def instructions(self) -> int:
        """Number of instructions, without padding."""
        return sum(len(block.code) for block in self.blocks)


def outline_kernel(compiled: CompiledKernel) -> Outline:
    """Returns the outline of a compiled kernel; raises MachineError if `nvdisasm` fails."""
    cubin, symbol = Path(compiled.build.cubin), compiled.build.symbol
    return outline_code(compiled.sass, read_live_registers(cubin, symbol), read_source_lines(cubin, symbol))


def outline_code(sass: str, live: Mapping[int, int], frames: Frames) -> Outline:
    """Returns the outline of `sass`, the output of `cuobjdump -sass` with encodings.

    `live` has live registers by address, `frames` source lines by address. Raises MachineError if encodings are
    missing.
    """
    code = read_schedule(sass).code
    plain = [one.instruction for one in code]
    blocks = read_blocks(plain)
    loops = {f"L{number}": loop for number, loop in enumerate(find_loops(blocks), 1)}
    main = main_file(frames)
    outlined = _instructions(code, blocks, _lines_of(frames, main))
    return Outline(
        tuple(_block(at, block, outlined, live, loops) for at, block in enumerate(blocks)),
        loops,
        {_address(plain[block.places.start]): _name(at) for at, block in enumerate(blocks)},
        Path(main).name,
    )


def _instructions(
    code: Sequence[EncodedInstruction], blocks: Sequence[Block], lines: Mapping[int, SourceLine]
) -> list[OutlinedInstruction]:
    awaited = awaited_along(code, blocks)
    numbers = [0] * len(code)
    numbered = (place for place, one in enumerate(code) if holds_something(one) or _touches_memory(one.instruction))
    for number, place in enumerate(numbered, 1):
        numbers[place] = number
    bare = [
        OutlinedInstruction(
            one.instruction,
            numbers[place],
            (),
            _touches_memory(one.instruction),
            family_of(one.instruction) in _ARITHMETIC and not numbers[place] and not one.control.waits,
            lines.get(_address(one.instruction)),
        )
        for place, one in enumerate(code)
    ]
    return [
        replace(one, awaits=tuple((bare[hold.place], hold) for hold in holds))
        for one, holds in zip(bare, awaited, strict=True)
    ]


def _touches_memory(one: Instruction) -> bool:
    """Whether an instruction reads or writes memory other than the constants."""
    family = family_of(one)
    return any(word in family for word in _MEMORY_WORDS) and not family.startswith("constant")


def _block(
    at: int, block: Block, outlined: Sequence[OutlinedInstruction], live: Mapping[int, int], loops: Mapping[str, Loop]
) -> OutlinedBlock:
    code = tuple(outlined[place] for place in block.places)
    known = [live[address] for one in code if (address := _address(one.instruction)) in live]
    around = sorted(
        (name for name, loop in loops.items() if at in loop.blocks), key=lambda name: -len(loops[name].blocks)
    )
    return OutlinedBlock(
        _name(at), _roles(at, code), code, max(known, default=None), tuple(around), tuple(map(_name, block.successors))
    )


def _roles(at: int, code: Sequence[OutlinedInstruction]) -> tuple[str, ...]:
    last = code[-1].instruction.name
    barrier = any(family_of(one.instruction) == "block barrier" for one in code)
    roles = {"entry": at == 0, "barrier": barrier, "call": last == "CALL", "return": last == "RET"}
    return tuple(role for role, holds in (roles | {"exit": last == "EXIT"}).items() if holds)


def _name(at: int) -> str:
    return f"BB{at}"


def _address(one: Instruction) -> int:
    return int(one.address, 16)


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
    lines = read_source_lines(Path(compiled.build.cubin), compiled.build.symbol)
    return outermost_loops(outline_code(compiled.sass, {}, lines))


def outermost_loops(outline: Outline) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of an outline."""
    loops = list(outline.loops.values())
    return tuple(
        _loop(outline, loop, sum(other.blocks < loop.blocks for other in loops))
        for loop in loops
        if not any(loop.blocks < other.blocks for other in loops)
    )


def _loop(outline: Outline, loop: Loop, within: int) -> OutermostLoop:
    code = [one for at in sorted(loop.blocks) for one in outline.blocks[at].code]
    counts = Counter(family_of(one.instruction) for one in code)
    families = {name: counts[name] for name in sorted(counts, key=family_order)}
    return OutermostLoop(outline.blocks[loop.latches[0]].code[-1].line, loop, within, families)
