"""Reads operands of PTX instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gdnbench.ptx.literals import read_number
from gdnbench.ptx.program import Operand, PtxInstruction


def split_operands(text: str) -> list[str]:
    """Splits operands at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def read_operand(text: str) -> Operand:
    """Reads an operand."""
    if text.startswith("[") and text.endswith("]"):
        inner = split_operands(text[1:-1])
        if len(inner) > 1:
            return Operand("", is_address=True, parts=tuple(map(read_operand, inner)))
        return replace(_with_offset(inner[0]), is_address=True)
    if text.startswith(("{", "(")):
        return Operand("", parts=tuple(map(read_operand, split_operands(text[1:-1]))))
    if "|" in text:  # a register and the predicate beside it
        return Operand("", parts=tuple(read_operand(part.strip()) for part in text.split("|")))
    if text.startswith("!"):
        return Operand(text[1:].strip(), is_negated=True)
    return _with_offset(text)


def _with_offset(text: str) -> Operand:
    found = re.fullmatch(r"(.+?)\s*([+-])\s*(-?\w+)", text)
    if found and not re.fullmatch(r"-?\d.*", text):
        offset = read_number(found[3], "s64")
        if offset is not None:
            return Operand(found[1], offset=-offset if found[2] == "-" else offset)
    return Operand(text)


def renamed(instruction: PtxInstruction, names: Mapping[str, str]) -> PtxInstruction:
    """Returns the instruction with other names in its operands."""
    if not names:
        return instruction
    guard = _renamed_operand(instruction.guard, names) if instruction.guard else None
    operands = tuple(_renamed_operand(each, names) for each in instruction.operands)
    return replace(instruction, guard=guard, operands=operands)


def _renamed_operand(operand: Operand, names: Mapping[str, str]) -> Operand:
    parts = tuple(_renamed_operand(each, names) for each in operand.parts)
    return replace(operand, text=names.get(operand.text, operand.text), parts=parts)
