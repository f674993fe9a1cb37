"""SASS with what compilers renumber taken out, so that two listings differ only where the code does."""

from __future__ import annotations

import re

from gdnbench.binary.instruction import Instruction, read_instructions

_REGISTER = re.compile(r"\b(UR|R|UP|P|B)\d+\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_JUMPS = frozenset(
    {"BRA", "BRX", "BRXU", "BSSY", "CALL", "JMP", "RET", "BREAK"}
)  # their numbers are places in the code


def normal_lines(sass: str) -> list[str]:
    """An instruction a line: registers and predicates lose their numbers, jumps their targets.

    Padding and `.reuse`, which tells the register cache and follows from scheduling, are left out. Displacements of
    memory accesses and constants stay: they say what is touched.
    """
    return [_normal(one) for one in read_instructions(sass) if one.name != "NOP"]


def _normal(instruction: Instruction) -> str:
    text = _REGISTER.sub(r"\1", str(instruction).replace(".reuse", ""))
    return _ADDRESS.sub("…", text) if instruction.name in _JUMPS else text
