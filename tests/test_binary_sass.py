"""Load widths in recorded SASS."""

from pathlib import Path

import pytest

from gdnbench.binary import widest_load_bits
from gdnbench.binary.sass import disassemble

RECORDED = (Path(__file__).parent / "data" / "binary" / "decode_v4_sm_100.sass").read_text()


@pytest.fixture
def tool(monkeypatch):
    """Stands in for cuobjdump: what it would print, and how often it is asked."""
    asked = []
    monkeypatch.setattr("gdnbench.binary.sass.run_cuobjdump", lambda *words: asked.append(words) or f"SASS of {words}")
    return asked


def test_the_tool_is_asked_once_for_each_kernel_of_a_cubin(tool, tmp_path):
    one, other = tmp_path / "one.cubin", tmp_path / "other.cubin"
    texts = [disassemble(cubin, symbol) for cubin in (one, other) for symbol in ("a", "b")]
    assert [disassemble(cubin, symbol) for cubin in (one, other) for symbol in ("a", "b")] == texts
    assert len(set(texts)) == len(tool) == 4
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_folder_that_cannot_be_written_costs_only_time(tool, tmp_path):
    gone = tmp_path / "nowhere" / "one.cubin"
    assert disassemble(gone, "a") == disassemble(gone, "a")
    assert len(tool) == 2


def test_what_is_kept_and_is_no_text_is_made_anew(tool, tmp_path):
    cubin = tmp_path / "one.cubin"
    text = disassemble(cubin, "a")
    [kept] = tmp_path.iterdir()
    kept.write_bytes(b"\xff\xfe")
    assert disassemble(cubin, "a") == text
    assert len(tool) == 2


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
