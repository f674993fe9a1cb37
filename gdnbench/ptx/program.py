"""A kernel in PTX: instructions with their places in the source, registers, variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gdnbench.errors import NotInterpretedError

WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
"""Bytes of each type of PTX; a predicate takes one here."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the source.

    Attributes:
        file: its path.
        line: its number, from 1.
        inlined_at: where the function that the line is in was inlined; None where it was not.
    """

    file: str
    line: int
    inlined_at: SourceLine | None = None

    @property
    def place(self) -> str:
        """The file's name and the line alone."""
        return f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return self.place if self.inlined_at is None else f"{self.place}, inlined at {self.inlined_at}"


NO_LINE = SourceLine("", 0)


@dataclass(frozen=True)
class Operand:
    """An operand of an instruction.

    Attributes:
        text: of a register, label, symbol or number, without a sign of negation.
        offset: bytes or elements that are added to what `text` names.
        is_address: whether it stands in brackets.
        is_negated: whether a predicate is meant the other way.
        parts: of a vector in braces; or of an address with several parts in brackets.
    """

    text: str
    offset: int = 0
    is_address: bool = False
    is_negated: bool = False
    parts: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction.

    Attributes:
        name: the opcode's first word, `ld`.
        modifiers: its others, `("global", "nc", "v4", "f32")`.
        operands: in order, destinations first.
        guard: the predicate that it runs under; None for always.
        at: its place in the source.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None
    at: SourceLine

    @property
    def opcode(self) -> str:
        """As it is written, `ld.global.f32`."""
        return ".".join((self.name, *self.modifiers))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types among its modifiers, in order."""
        return tuple(word for word in self.modifiers if word in WIDTHS)

    @property
    def vector(self) -> int:
        """Elements side by side that a load or store takes."""
        return next((int(word[1:]) for word in self.modifiers if word in {"v2", "v4", "v8"}), 1)

    def has(self, *words: str) -> bool:
        """Whether one of the words is among its modifiers."""
        return any(word in self.modifiers for word in words)


@dataclass(frozen=True)
class Variable:
    """A variable in memory.

    Attributes:
        name: unique in the program.
        space: `global`, `const`, `shared`, `local` or `param`.
        alignment: bytes.
        nbytes: its size; 0 for dynamic shared memory.
        content: what it holds at the start; empty where that is nothing.
    """

    name: str
    space: str
    alignment: int
    nbytes: int
    content: bytes = b""


@dataclass(frozen=True)
class Program:
    """One kernel.

    Attributes:
        entry: its name.
        parameters: what a launch gives it, in order.
        registers: the type of each, by name.
        variables: that it refers to, by name.
        instructions: in order.
        labels: the number of the instruction that each stands before.
        tables: labels by the name of a table of branch targets.
        cluster: blocks of a cluster.
    """

    entry: str
    parameters: tuple[Variable, ...]
    registers: Mapping[str, str]
    variables: Mapping[str, Variable]
    instructions: tuple[PtxInstruction, ...]
    labels: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]]
    cluster: int = 1


def unknown(instruction: PtxInstruction) -> NotInterpretedError:
    """The error for an instruction that the interpreter does not know."""
    opcode = instruction.opcode.replace("__", "::")
    return NotInterpretedError(f"{instruction.at}: `{opcode}` cannot be interpreted", "its numbers need a GPU")
