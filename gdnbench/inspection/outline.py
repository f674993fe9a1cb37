"""An outline of a kernel's machine code: its blocks and loops, what waits for what, live registers, source lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.codegen.awaited import Hold, awaited_along, holds_something
from gdnbench.codegen.graph import Block, Loop, find_loops, read_blocks
from gdnbench.codegen.nvdisasm import SourceLine, read_live_registers, read_source_lines
from gdnbench.codegen.sass import Instruction, family_of
from gdnbench.codegen.schedule import EncodedInstruction, read_schedule
from gdnbench.inspection.compiled import CompiledKernel
from gdnbench.inspection.source_lines import Frames, choose_lines, main_file

# What may be summed up where nothing waits: it computes, and touches nothing but registers. A family that is not
# listed here, that of opcodes which nobody has named yet included, is always told.
_ARITHMETIC = frozenset({
    "fp32 fma", "fp32 add", "fp32 multiply", "fp32 other", "fp16/bf16", "fp64", "special function", "conversion",
    "shuffle", "vote", "tensor core", "comparison", "move", "integer and address",
})  # fmt: skip
_MEMORY_WORDS = ("load", "store", "copy", "atomic", "shared matrix move")


@dataclass(frozen=True)
class OutlinedInstruction:
    """One instruction.

    Attributes:
        instruction: as disassembled.
        number: by which waits name it, from 1; 0 where none can and it is no access to memory.
        awaits: the instructions that it may wait for, and until when each.
        accesses: whether it reads or writes memory other than the constants.
        computes: whether it is arithmetic that waits for nothing and that nothing waits for.
        line: of the source; None if unknown.
    """

    instruction: Instruction
    number: int
    awaits: tuple[tuple[OutlinedInstruction, Hold], ...]
    accesses: bool
    computes: bool
    line: SourceLine | None


@dataclass(frozen=True)
class OutlinedBlock:
    """Straight code.

    Attributes:
        name: `BB0`, by its place in the code.
        roles: of `entry`, `barrier`, `call`, `return` and `exit`.
        code: its instructions.
        live: registers of a thread that hold values, at most; None if unknown.
        loops: the loops that it is part of, outermost first.
        successors: names of the blocks that may come next.
    """

    name: str
    roles: tuple[str, ...]
    code: tuple[OutlinedInstruction, ...]
    live: int | None
    loops: tuple[str, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True)
class Outline:
    """A kernel's machine code.

    Attributes:
        blocks: in the order of their addresses.
        loops: by their names, `L1`.
        targets: the name of the block that starts at each address.
        main_file: the name of the source file that most lines are of; empty if the cubin has none.
    """

    blocks: tuple[OutlinedBlock, ...]
    loops: Mapping[str, Loop]
    targets: Mapping[int, str]
    main_file: str

    @property
    def instructions(self) -> int:
        """How many, without padding."""
        return sum(len(block.code) for block in self.blocks)


def outline_kernel(compiled: CompiledKernel) -> Outline:
    """The outline of a kernel as compiled.

    Raises:
        MachineError: if `nvdisasm` is absent or cannot read the cubin.
    """
    cubin, symbol = Path(compiled.build.cubin), compiled.build.symbol
    return outline_code(compiled.sass, read_live_registers(cubin, symbol), read_source_lines(cubin, symbol))


def outline_code(sass: str, live: Mapping[int, int], frames: Frames) -> Outline:
    """The outline of a disassembly.

    Args:
        sass: what `cuobjdump -sass` printed, encodings included.
        live: live registers, by address.
        frames: source lines, by address.

    Raises:
        MachineError: if encodings are missing.
    """
    code = read_schedule(sass).code
    plain = [one.instruction for one in code]
    blocks = read_blocks(plain)
    loops = {f"L{number}": loop for number, loop in enumerate(find_loops(blocks), 1)}
    main = main_file(frames)
    told = _instructions(code, blocks, choose_lines(frames, main))
    return Outline(
        tuple(_block(at, block, told, live, loops) for at, block in enumerate(blocks)),
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
            _computes(one) and not numbers[place] and not one.control.waits,
            lines.get(_address(one.instruction)),
        )
        for place, one in enumerate(code)
    ]
    return [
        replace(one, awaits=tuple((bare[hold.place], hold) for hold in holds))
        for one, holds in zip(bare, awaited, strict=True)
    ]


def _touches_memory(one: Instruction) -> bool:
    """Whether it reads or writes memory other than the constants."""
    family = family_of(one)
    return any(word in family for word in _MEMORY_WORDS) and not family.startswith("constant")


def _computes(one: EncodedInstruction) -> bool:
    return family_of(one.instruction) in _ARITHMETIC


def _block(
    at: int, block: Block, told: Sequence[OutlinedInstruction], live: Mapping[int, int], loops: Mapping[str, Loop]
) -> OutlinedBlock:
    code = tuple(told[place] for place in block.places)
    known = [live[address] for one in code if (address := _address(one.instruction)) in live]
    around = sorted(
        (name for name, loop in loops.items() if at in loop.blocks), key=lambda name: -len(loops[name].blocks)
    )
    return OutlinedBlock(
        _name(at),
        _roles(at, code),
        code,
        max(known, default=None),
        tuple(around),
        tuple(map(_name, block.successors)),
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
