"""The instruction mix of a kernel: static counts, so that the body of a loop counts once however often it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.binary.families import FAMILIES, family_of
from gdnbench.binary.instruction import BYTES, Instruction, read_instructions
from gdnbench.binary.sass import width_bits

# What a global access says of the caches: evict first, last or unchanged, no allocation in L1, last use, the read-only
# path, past L1 (as cp.async.cg), and how much L2 fetches beside.
_HINTS = frozenset({"EF", "EL", "EU", "NA", "LU", "CONSTANT", "BYPASS", "LTC64B", "LTC128B", "LTC256B"})
_GLOBAL = frozenset({"LDG", "STG", "LDGSTS", "LD", "ST"})


@dataclass(frozen=True)
class Mix:
    """What a kernel's code consists of.

    Attributes:
        instructions: all but the NOPs that pad the code.
        code_bytes: size of the code, padding included.
        predicated: instructions under a predicate.
        families: how many of each family, in the order in which they are shown.
        hints: how many global accesses have each cache hint.
        opcodes: how many of each opcode with its modifiers, most frequent first.
        spill_store_bytes: what the stores to local memory move, bytes per thread. `ptxas -v` tells a few less where
            some are no spills but saved registers of a call or arrays indexed at run time.
        spill_load_bytes: what the loads from it move, likewise.
    """

    instructions: int
    code_bytes: int
    predicated: int
    families: Mapping[str, int]
    hints: Mapping[str, int]
    opcodes: Mapping[str, int]
    spill_store_bytes: int
    spill_load_bytes: int


def read_mix(sass: str) -> Mix:
    """Counts the instructions of a disassembly."""
    every = list(read_instructions(sass))
    counted = [one for one in every if one.name != "NOP"]
    return Mix(
        instructions=len(counted),
        code_bytes=len(every) * BYTES,
        predicated=sum(bool(one.predicate) for one in counted),
        families=_families(counted),
        hints=_hints(counted),
        opcodes=dict(Counter(one.opcode for one in counted).most_common()),
        spill_store_bytes=_bytes_moved(counted, "STL"),
        spill_load_bytes=_bytes_moved(counted, "LDL"),
    )


def _families(instructions: list[Instruction]) -> dict[str, int]:
    counts = Counter(map(family_of, instructions))
    return {name: counts[name] for name in sorted(counts, key=family_order)}


def family_order(name: str) -> tuple[int, int]:
    """Where a family stands among those shown: accesses of one kind widest first."""
    kind, _, width = name.rpartition(" ")
    return (FAMILIES.index(kind), -int(width)) if width.isdecimal() else (FAMILIES.index(name), 0)


def _hints(instructions: list[Instruction]) -> dict[str, int]:
    counts = Counter(hint for one in instructions if one.name in _GLOBAL for hint in one.modifiers if hint in _HINTS)
    return dict(sorted(counts.items()))


def _bytes_moved(instructions: list[Instruction], name: str) -> int:
    return sum(width_bits(one.modifiers) for one in instructions if one.name == name) // 8
