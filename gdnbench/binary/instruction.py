"""One instruction of a disassembly as `cuobjdump -sass` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BYTES = 16
"""Size of an instruction on every architecture since Volta."""

# `/*0090*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;`; the lines of encodings, `/* 0x… */`, do not match.
_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+)\s+)?([A-Z]\w*)((?:\.\w+)*)\s*([^;]*?)\s*;", re.MULTILINE)


@dataclass(frozen=True)
class Instruction:
    """What one line says.

    Attributes:
        address: in the kernel, hexadecimal.
        predicate: under which it runs, `!P0`; empty if always.
        name: the opcode without modifiers, `LDG`.
        modifiers: the rest of the opcode, (`E`, `128`).
        operands: as printed.
    """

    address: str
    predicate: str
    name: str
    modifiers: tuple[str, ...]
    operands: str

    @property
    def opcode(self) -> str:
        """Name and modifiers, `LDG.E.128`."""
        return ".".join((self.name, *self.modifiers))

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {self.operands}".rstrip()


def read_instructions(sass: str) -> Iterator[Instruction]:
    """The instructions of a disassembly, in order."""
    for address, predicate, name, modifiers, operands in _LINE.findall(sass):
        yield Instruction(address, predicate, name, tuple(modifiers.split(".")[1:]), operands)


def listing(sass: str) -> str:
    """A disassembly without the encodings: an address and an instruction a line."""
    return "\n".join(f"/*{one.address}*/  {one} ;" for one in read_instructions(sass))
