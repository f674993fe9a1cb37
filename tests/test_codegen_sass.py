"""What is read from a disassembly."""

import re
from pathlib import Path

import pytest

from gdnbench.codegen.sass import normalize, widest_load_bits

RECORDED = (Path(__file__).parent / "data" / "binary" / "decode_v4_sm_100.sass").read_text()


def test_widest_of_a_whole_kernel():
    assert "LDG.E.U16" in RECORDED
    assert widest_load_bits(RECORDED) == 128


def test_a_kernel_that_only_stores():
    assert widest_load_bits("\n".join(line for line in RECORDED.splitlines() if "LDG" not in line)) == 0


@pytest.mark.parametrize(
    ("line", "bits"),
    [
        ("/*0070*/  LDG.E.U8 R4, desc[UR4][R4.64] ;", 8),
        ("/*0070*/  LDG.E.S8 R4, desc[UR4][R4.64] ;", 8),
        ("/*00d0*/  LDG.E.U16.CONSTANT R7, desc[UR4][R2.64] ;", 16),
        ("/*0110*/  LDG.E.CONSTANT R40, desc[UR4][R40.64] ;", 32),
        ("/*0060*/  LDG.E.LTC128B R3, desc[UR4][R2.64] ;", 32),
        ("/*0330*/  LDG.E.64.CONSTANT R2, desc[UR4][R2.64] ;", 64),
        ("/*0320*/  LDG.E.EF.128 R32, desc[UR4][R50.64+0x200] ;", 128),
        ("/*0320*/  @!P0 LDG.E.128 R32, desc[UR4][R50.64] ;", 128),
        ("/*0070*/  LDG.E.ENL2.256 R4, R8, desc[UR4][R4.64] ;", 256),
        ("/*00e0*/  LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64] ;", 128),
        ("/*0150*/  LD.E.128 R4, desc[UR10][R4.64] ;", 128),
        ("/*0100*/  UBLKCP.S.G [UR6], [UR4], UR10 ;", 128),
        ("/*0100*/  UTMALDG.2D [UR8], [UR4] ;", 128),
        ("/*0100*/  UBLKCP.G.S [UR6], [UR4], UR10 ;", 0),
        ("/*0140*/  LDS.128 R8, [R0] ;", 0),
        ("/*0140*/  LDL.128 R8, [R1] ;", 0),
        ("/*0030*/  LDCU.128 UR8, c[0x0][0x3a0] ;", 0),
        ("/*0110*/  LDGDEPBAR ;", 0),
        ("/*0070*/  STG.E.128 desc[UR4][R2.64], R4 ;", 0),
        ("/*0090*/  CCTL.E.PF2 [R4] ;", 0),
    ],
)
def test_each_kind_of_load(line, bits):
    assert widest_load_bits(line) == bits


V6 = (Path(__file__).parent / "data" / "binary" / "decode_v6_sm_90.sass").read_text()


def _lines(*texts):
    return normalize("\n".join(f"/*{16 * number:04x}*/  {text} ;" for number, text in enumerate(texts)))


def test_numbers_of_registers_and_places_are_taken_out():
    assert _lines("@!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10]", "BRA 0x90", "FADD R4, R4.reuse, R255", "NOP") == [
        "@!P LDG.E.128 R, desc[UR][R.64+0x10]",
        "BRA …",
        "FADD R, R, R",
    ]


def test_what_says_what_is_touched_stays():
    assert _lines("LDC.64 R2, c[0x0][0x3b0]", "ISETP.GE.AND P0, PT, RZ, 0x10, PT") == [
        "LDC.64 R, c[0x0][0x3b0]",
        "ISETP.GE.AND P, PT, RZ, 0x10, PT",
    ]


def test_a_kernel_with_its_registers_renumbered_is_the_same():
    other = re.sub(r"\bR(\d+)\b", lambda found: f"R{int(found[1]) + 2}", V6)
    assert other != V6
    assert normalize(other) == normalize(V6)
