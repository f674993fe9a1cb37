"""Machine code (SASS) as `cuobjdump -sass` prints it: instructions, how wide they load, their mix, and listings.

Counts are static: the body of a loop counts once however often it runs. Opcodes are as the "Instruction Set Reference"
of NVIDIA's CUDA Binary Utilities names them; an opcode of no family counts as `other`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gdnbench.errors import MachineError

BYTES = 16
"""Size of an instruction on every architecture since Volta."""

# `/*0090*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;`; the lines of encodings, `/* 0x… */`, do not match.
_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+)\s+)?([A-Z]\w*)((?:\.\w+)*)\s*([^;]*?)\s*;", re.MULTILINE)
# LDG loads from global memory, LDGSTS copies from there to shared memory (cp.async), LD is a load whose address space
# the compiler could not infer. LDL, LDS and LDC read local, shared and constant memory and do not count.
_LOAD = re.compile(r"(?<![\w.])(?:LDG|LDGSTS|LD)((?:\.\w+)*)(?=\s)")
# The bulk copies of Hopper and later (cp.async.bulk, TMA) move multiples of 16 bytes; the instruction does not say how
# many, so each counts as the 128 bits that it moves at least. `.S.G` is to shared memory from global; `.G.S` stores.
_BULK_COPY = re.compile(r"(?<![\w.])(?:UBLKCP(?:\.\w+)*\.S\.G|UTMALDG)(?!\w)")
_BULK_BITS = 128
# Only whole modifiers count: `.LTC128B` is a prefetch size, not a width.
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_DEFAULT_BITS = 32
_REGISTER = re.compile(r"\b(UR|R|UP|P|B)\d+\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
# Instructions whose numbers are addresses in the code.
_JUMPS = frozenset({"BRA", "BRX", "BRXU", "BSSY", "CALL", "JMP", "RET", "BREAK"})
_MEMORY: Mapping[str, str] = {
    "LDG": "global load",
    "STG": "global store",
    "LDGSTS": "global-to-shared copy",
    "LDS": "shared load",
    "STS": "shared store",
    "LDL": "local load",
    "STL": "local store",
    "LDC": "constant load",
    "LDCU": "constant load",
    "ULDC": "constant load",
    "LD": "generic load",
    "ST": "generic store",
}

_WORDS: Mapping[str, str] = {
    "shared matrix move": "LDSM STSM MOVM",
    "TMA load": "UTMALDG UBLKPF UTMAPF",
    "TMA store": "UTMASTG UTMAREDG UBLKRED",
    "bulk copy": "UBLKCP",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS UREDGR",
    "fp32 fma": "FFMA FFMA2 FFMA32I UFFMA",
    "fp32 add": "FADD FADD2 FADD32I UFADD FHADD",
    "fp32 multiply": "FMUL FMUL2 FMUL32I UFMUL",
    "fp32 other": "FMNMX FMNMX3 FSEL FCHK FSWZADD UFSEL UFMNMX",
    "fp16/bf16": "HFMA2 HADD2 HMUL2 HMNMX2 HFMA2_32I HADD2_32I",
    "fp64": "DFMA DADD DMUL",
    "special function": "MUFU",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND UF2FP UI2F UI2FP UF2I",
    "shuffle": "SHFL",
    "vote": "VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "tensor core": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA QGMMA IGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA",
    "tensor memory": "LDTM STTM UTCATOMSWS UTCCP UTCSHIFT",
    "block barrier": "BAR UCGABAR_ARV UCGABAR_WAIT",
    "warp barrier": "WARPSYNC",
    "wait or fence": "DEPBAR LDGDEPBAR SYNCS MEMBAR FENCE ERRBAR ARRIVES UTMACMDFLUSH WARPGROUP WARPGROUPSET NANOSLEEP "
    "UTCBAR",
    "cache control": "CCTL CCTLL UTMACCTL",
    "comparison": "ISETP FSETP DSETP HSETP2 PLOP3 PSETP UISETP UPLOP3 UPSETP P2R R2P UP2UR UR2UP",
    "move": "MOV UMOV S2R S2UR CS2R CS2UR R2UR MOV32I",
    "branch": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT KILL BPT RTT",
    "convergence": "BSSY BSYNC BREAK BMOV YIELD",
    "integer and address": "IADD IADD3 IADD32I IADD64 IMAD LEA LOP LOP3 LOP32I SHF SHL SHR IMNMX IABS PRMT SEL POPC "
    "FLO BREV VIADD VIMNMX VIMNMX3 VIADDMNMX SGXT BMSK IDP ISCADD VABSDIFF VABSDIFF4 UIADD3 UIMAD ULEA ULOP ULOP3 USHF "
    "USHL USHR UPRMT USEL UPOPC UFLO UBREV USGXT UBMSK UVIADD UVIMNMX UIABS UIMNMX UIADD3_64 LEPC",
}
# Hopper's asynchronous products of a warpgroup. One into RZ multiplies nothing: ptxas has it stand for an empty group.
_WARPGROUP_PRODUCTS = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
_FAMILY = {name: family for family, names in _WORDS.items() for name in names.split()}

FAMILIES: tuple[str, ...] = (*dict.fromkeys(_MEMORY.values()), *_WORDS, "other")
"""Every family, in the order in which they are shown."""

# What a global access says of the caches: evict first, last or unchanged, no allocation in L1, last use, the read-only
# path, past L1 (as cp.async.cg), and how much more L2 fetches.
_HINTS = frozenset({"EF", "EL", "EU", "NA", "LU", "CONSTANT", "BYPASS", "LTC64B", "LTC128B", "LTC256B"})
_GLOBAL = frozenset({"LDG", "STG", "LDGSTS", "LD", "ST"})


@dataclass(frozen=True)
class Instruction:
    """An instruction of a disassembly, `LDG` with the modifiers (`E`, `128`).

    Its address in the kernel is hexadecimal; it runs under a predicate, `!P0`, or always if that is empty.
    """

    address: str
    predicate: str
    name: str
    modifiers: tuple[str, ...]
    operands: str

    @property
    def opcode(self) -> str:
        """The name with its modifiers, `LDG.E.128`."""
        return ".".join((self.name, *self.modifiers))

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {self.operands}".rstrip()


def read_instructions(sass: str) -> Iterator[Instruction]:
    """Yields the instructions of a disassembly, in order."""
    for address, predicate, name, modifiers, operands in _LINE.findall(sass):
        yield Instruction(address, predicate, name, tuple(modifiers.split(".")[1:]), operands)


def listing(sass: str) -> str:
    """Returns a disassembly without the encodings: an address and an instruction a line."""
    return "\n".join(f"/*{one.address}*/  {one} ;" for one in read_instructions(sass))


def widest_load_bits(sass: str) -> int:
    """Returns the width in bits of the widest global load per thread, or 0 if there is none."""
    widths = [width_bits(modifiers.split(".")) for modifiers in _LOAD.findall(sass)]
    return max([*widths, _BULK_BITS if _BULK_COPY.search(sass) else 0])


def width_bits(modifiers: Iterable[str]) -> int:
    """Returns the width in bits of a load or store per thread, from its opcode's modifiers."""
    return next((_WIDTHS[each] for each in modifiers if each in _WIDTHS), _DEFAULT_BITS)


def normalize(sass: str) -> list[str]:
    """Returns an instruction a line, registers and predicates without their numbers, jumps without their targets.

    Padding and `.reuse`, a hint to the register cache that follows from scheduling, are left out. Displacements of
    memory accesses and constants stay: they say what is touched.
    """
    every = [one for one in read_instructions(sass) if one.name != "NOP"]
    texts = [_REGISTER.sub(r"\1", str(one).replace(".reuse", "")) for one in every]
    return [_ADDRESS.sub("…", text) if one.name in _JUMPS else text for one, text in zip(every, texts, strict=True)]


def family_of(instruction: Instruction) -> str:
    """Returns an instruction's family, `other` if none; a memory access's has its width: `global load 128`."""
    if instruction.name in _MEMORY:
        return f"{_MEMORY[instruction.name]} {width_bits(instruction.modifiers)}"
    if instruction.name == "IMAD" and "MOV" in instruction.modifiers:
        return "move"  # the multiplier's way to copy a register
    return _FAMILY.get(instruction.name, "other")


@dataclass(frozen=True)
class InstructionMix:
    """What a kernel's code consists of."""

    instructions: int  # all but the NOPs that pad the code
    code_bytes: int  # size of the code, padding included
    predicated: int
    families: Mapping[str, int]  # how many of each family, in the order in which they are shown
    hints: Mapping[str, int]  # how many global accesses have each cache hint
    opcodes: Mapping[str, int]  # how many of each opcode with its modifiers, most frequent first
    # spill_store_bytes, spill_load_bytes: moved to and from local memory per thread. What `ptxas -v` counts is a bit
    # less where some are no spills but saved registers of a call or arrays indexed at run time.
    spill_store_bytes: int
    spill_load_bytes: int
    warpgroup_products: int  # Hopper's asynchronous products of a warpgroup (wgmma)


def read_mix(sass: str) -> InstructionMix:
    """Counts the instructions of a disassembly."""
    every = list(read_instructions(sass))
    counted = [one for one in every if one.name != "NOP"]
    families = Counter(map(family_of, counted))
    hints = Counter(hint for one in counted if one.name in _GLOBAL for hint in one.modifiers if hint in _HINTS)
    return InstructionMix(
        instructions=len(counted),
        code_bytes=len(every) * BYTES,
        predicated=sum(bool(one.predicate) for one in counted),
        families={name: families[name] for name in sorted(families, key=family_order)},
        hints=dict(sorted(hints.items())),
        opcodes=dict(Counter(one.opcode for one in counted).most_common()),
        spill_store_bytes=_bytes_moved(counted, "STL"),
        spill_load_bytes=_bytes_moved(counted, "LDL"),
        warpgroup_products=sum(
            one.name in _WARPGROUP_PRODUCTS and not one.operands.startswith("RZ,") for one in counted
        ),
    )


def family_order(name: str) -> tuple[int, int]:
    """Returns the sort key of a family in the order shown, accesses of one kind widest first."""
    kind, _, width = name.rpartition(" ")
    return (FAMILIES.index(kind), -int(width)) if width.isdecimal() else (FAMILIES.index(name), 0)


def _bytes_moved(instructions: list[Instruction], name: str) -> int:
    return sum(width_bits(one.modifiers) for one in instructions if one.name == name) // 8


SCOREBOARDS = 6
"""Scoreboards of a warp; an instruction without a fixed latency holds one until it is done."""

_FIRST_BIT = 105 - 64  # of the fields, in the high half of an instruction
_NO_SCOREBOARD = 7

# `cuobjdump -sass` prints both halves of every instruction, the low one first.
_HALF = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
# `DEPBAR.LE SB0, 0x1` waits until at most one is left, and results of one kind come in order; `DEPBAR {5,4}` names
# scoreboards as the wait mask does.
_AT_MOST = re.compile(r"SB(\d),\s*(0x[0-9a-f]+)")
_SET = re.compile(r"\{([\d,\s]+)\}")


@dataclass(frozen=True)
class Control:
    """The control fields of one instruction.

    After `stall` cycles the warp may issue its next. The write scoreboard is held until the result is there, None if
    the latency is fixed; the read scoreboard until the operands are read, None if that is at once; `waits` must be free
    before it issues. `reuse` has a bit for each operand slot whose register the register cache keeps.
    """

    stall: int
    yields: bool
    write_scoreboard: int | None
    read_scoreboard: int | None
    waits: tuple[int, ...]
    reuse: int


def read_control(high: int) -> Control:
    """Decodes the high 64 bits of an instruction."""
    fields = high >> _FIRST_BIT
    mask = fields >> 11 & 0b111111
    return Control(
        stall=fields & 0b1111,
        yields=not fields >> 4 & 1,  # the bit is set where it does not yield
        write_scoreboard=_scoreboard(fields >> 5),
        read_scoreboard=_scoreboard(fields >> 8),
        waits=tuple(number for number in range(SCOREBOARDS) if mask >> number & 1),
        reuse=fields >> 17 & 0b1111,
    )


def _scoreboard(field: int) -> int | None:
    number = field & 0b111
    return None if number == _NO_SCOREBOARD else number


def read_controls(sass: str, count: int) -> list[Control]:
    """Returns the control fields of a disassembly's instructions, in order; MachineError unless it has all `count`."""
    halves = _HALF.findall(sass)
    if len(halves) != 2 * count:
        said = f"cuobjdump printed {len(halves)} words for {count} instructions; two each are needed for a schedule"
        raise MachineError(said, "inspect with --sass, which needs no encodings, or update triton, whose wheel has it")
    return [read_control(int(high, 16)) for high in halves[1::2]]


@dataclass(frozen=True)
class OutstandingInstruction:
    """An instruction that holds a scoreboard since `cycle`, at which it issues if nothing is waited for."""

    instruction: Instruction
    cycle: int
    reads: bool  # held until its operands are read, not until its result is there


@dataclass(frozen=True)
class ScoreboardWait:
    """A scoreboard that an instruction waits for, and those that hold it since the last wait, first to last."""

    scoreboard: int
    holds: tuple[OutstandingInstruction, ...]


def awaited_scoreboards(instruction: Instruction, control: Control) -> Iterator[tuple[int, int]]:
    """Yields the scoreboards that an instruction waits for, and how many instructions may still hold each."""
    yield from ((number, 0) for number in control.waits)
    if instruction.name == "DEPBAR":
        for number, left in _AT_MOST.findall(instruction.operands):
            yield int(number), int(left, 16)
        for numbers in _SET.findall(instruction.operands):
            yield from ((int(number), 0) for number in sorted(numbers.split(",")))
