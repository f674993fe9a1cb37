"""What an instruction does, by its opcode: the families that an instruction mix is told in.

Opcodes are as the "Instruction Set Reference" of NVIDIA's CUDA Binary Utilities names them; one that is missing here
counts as `other`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdnbench.binary.instruction import Instruction
from gdnbench.binary.sass import width_bits

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
    "block barrier": "BAR UCGABAR_ARV UCGABAR_WAIT",
    "warp barrier": "WARPSYNC",
    "wait or fence": "DEPBAR LDGDEPBAR SYNCS MEMBAR FENCE ERRBAR ARRIVES UTMACMDFLUSH WARPGROUP WARPGROUPSET NANOSLEEP",
    "cache control": "CCTL CCTLL UTMACCTL",
    "comparison": "ISETP FSETP DSETP HSETP2 PLOP3 PSETP UISETP UPLOP3 UPSETP P2R R2P UP2UR UR2UP",
    "move": "MOV UMOV S2R S2UR CS2R CS2UR R2UR MOV32I",
    "branch": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT KILL BPT RTT",
    "convergence": "BSSY BSYNC BREAK BMOV YIELD",
    "integer and address": "IADD IADD3 IADD32I IADD64 IMAD LEA LOP LOP3 LOP32I SHF SHL SHR IMNMX IABS PRMT SEL POPC "
    "FLO BREV VIADD VIMNMX VIMNMX3 VIADDMNMX SGXT BMSK IDP ISCADD VABSDIFF VABSDIFF4 UIADD3 UIMAD ULEA ULOP ULOP3 USHF "
    "USHL USHR UPRMT USEL UPOPC UFLO UBREV USGXT UBMSK UVIADD UVIMNMX UIABS UIMNMX UIADD3_64 LEPC",
}
_FAMILY = {name: family for family, names in _WORDS.items() for name in names.split()}

FAMILIES: tuple[str, ...] = (*dict.fromkeys(_MEMORY.values()), *_WORDS, "other")
"""Every family, in the order in which they are shown."""


def family_of(instruction: Instruction) -> str:
    """The family of an instruction, a memory access with its width: `global load 128`; `other` if none."""
    if instruction.name in _MEMORY:
        return f"{_MEMORY[instruction.name]} {width_bits(instruction.modifiers)}"
    if instruction.name == "IMAD" and "MOV" in instruction.modifiers:
        return "move"  # the multiplier's way to copy a register
    return _FAMILY.get(instruction.name, "other")
