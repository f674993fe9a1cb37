"""A kernel in PTX: instructions with their places in the source, registers, variables; and faults found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from gdnbench.errors import NotInterpretedError

WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
    "f32x2": 8, "e4m3x2": 2, "e5m2x2": 2, "e2m1x2": 1,
}  # fmt: skip
"""Bytes of each type of PTX; a predicate takes one here."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the source, from 1; `inlined_at` is where its function was inlined, or None."""

    file: str
    line: int
    inlined_at: SourceLine | None = None

    @property
    def place(self) -> str:
        """The file's name and the line, without where they were inlined."""
        return f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return self.place if self.inlined_at is None else f"{self.place}, inlined at {self.inlined_at}"


NO_LINE = SourceLine("", 0)


@dataclass(frozen=True)
class Operand:
    """An operand of an instruction."""

    text: str  # a register, label, symbol or number, without a predicate's negation
    offset: int = 0  # bytes or elements that are added to what `text` names
    is_address: bool = False
    is_negated: bool = False
    parts: tuple[Operand, ...] = ()  # of a vector in braces, or of an address with several parts in brackets


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction: `ld.global.f32` has the name `ld` and the modifiers `("global", "f32")`."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]  # destinations first
    guard: Operand | None  # the predicate that it runs under, or None for always
    at: SourceLine

    @property
    def opcode(self) -> str:
        """The opcode as written, `ld.global.f32`."""
        return ".".join((self.name, *self.modifiers))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types among its modifiers, in order."""
        return tuple(word for word in self.modifiers if word in WIDTHS)

    @property
    def vector(self) -> int:
        """Elements side by side that a load or store moves."""
        return next((int(word[1:]) for word in self.modifiers if word in {"v2", "v4", "v8"}), 1)

    @cached_property
    def is_strong(self) -> bool:
        """Whether it is volatile, or orders other accesses, as to flags; instructions of mbarriers do not count."""
        words = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
        return self.name != "mbarrier" and self.has(*words)

    def has(self, *words: str) -> bool:
        """Returns whether one of the words is among its modifiers."""
        return any(word in self.modifiers for word in words)


@dataclass(frozen=True)
class Variable:
    """A variable in memory, by a name that is unique in the program."""

    name: str
    space: str  # `global`, `const`, `shared`, `local` or `param`
    alignment: int
    nbytes: int  # 0 for dynamic shared memory
    content: bytes = b""  # empty if nothing is initialised


@dataclass(frozen=True)
class Program:
    """One kernel, whose clusters have `cluster` blocks."""

    entry: str
    parameters: tuple[Variable, ...]
    registers: Mapping[str, str]  # types by name
    variables: Mapping[str, Variable]
    instructions: tuple[PtxInstruction, ...]
    labels: Mapping[str, int]  # number of the instruction that each stands before
    tables: Mapping[str, tuple[str, ...]]  # labels of each table of branch targets
    cluster: int = 1

    def has_strong_accesses(self, *spaces: str) -> bool:
        """Returns whether threads may synchronise through these spaces: by atomics, or accesses that order others."""
        every = ("global", "shared", "local", "param", "const", "shared__cta", "shared__cluster")
        return any(
            each.name in {"atom", "red"} or (each.name in {"ld", "st"} and each.is_strong)
            for each in self.instructions
            if each.has(*spaces) or not each.has(*every)
        )


def unknown(instruction: PtxInstruction) -> NotInterpretedError:
    """Returns the error for an instruction that the interpreter does not know."""
    opcode = instruction.opcode.replace("__", "::")
    return NotInterpretedError(f"{instruction.at}: `{opcode}` cannot be interpreted", "its numbers need a GPU")


WARP = 32  # lanes
BARRIERS = 16  # of a block, in hardware


@dataclass(frozen=True)
class LaunchGrid:
    """The threads of a launch: `blocks` along x, y and z, `threads` of a block along x, its dynamic `shared_bytes`."""

    blocks: tuple[int, int, int]
    threads: int
    shared_bytes: int = 0
    begins_early: bool = False  # before the launches in front of it have ended

    @property
    def count(self) -> int:
        """Blocks in all."""
        return self.blocks[0] * self.blocks[1] * self.blocks[2]


class Fault(StrEnum):
    """The kinds of faults."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "reads what nobody wrote"
    RACE = "race"
    BARRIER = "barrier"  # misused, or waited at for ever
    INACTIVE_LANE = "inactive lane"
    TRAP = "trap"
    ENDLESS = "does not end"


@dataclass(frozen=True)
class LocatedFault:
    """A fault at one source line: `text` describes its first thread, `count` is over all threads and instructions."""

    fault: Fault
    at: SourceLine
    text: str
    count: int

    def __str__(self) -> str:
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return f"{self.at}: {self.text}{more}"


@dataclass(frozen=True)
class Traffic:
    """What the loads or stores of one line request from the memory system."""

    at: SourceLine
    verb: str  # `loads` or `stores`
    requests: int  # executions by warps
    sectors: int  # of 32 bytes, that these touch
    least_sectors: int  # that the same bytes would take side by side

    @property
    def is_scattered(self) -> bool:
        """Whether the sectors are at least twice the least number."""
        return self.sectors >= 2 * self.least_sectors

    def __str__(self) -> str:
        each, least = self.sectors / self.requests, self.least_sectors / self.requests
        return f"{self.at}: {self.verb} {each:.3g} sectors a request, where {least:.3g} hold the bytes"


def describe_outside(verb: str, nbytes: int, place: int, name: str, room: int) -> str:
    """Describes an access outside memory of `room` bytes; `verb` is `reads`, say, and `place` may be negative."""
    where = f"{-place} bytes before" if place < 0 else f"at byte {place} of"
    return f"{verb} {nbytes} bytes {where} {name}, which has {room}"


class FaultLog:
    """Collects faults: one per kind and line, however many threads and instructions have it."""

    def __init__(self) -> None:
        self._found: dict[tuple[Fault, SourceLine], LocatedFault] = {}

    def add(self, fault: Fault, at: SourceLine, text: str, *, count: int = 1) -> None:
        """Counts a fault of `count` threads; the first `text` of a kind and line, about one thread, is kept."""
        key = (fault, at)
        known = self._found.get(key)
        self._found[key] = LocatedFault(fault, at, known.text if known else text, count + (known.count if known else 0))

    def all(self) -> tuple[LocatedFault, ...]:
        """Returns the faults in the order in which they were first seen."""
        return tuple(self._found.values())
