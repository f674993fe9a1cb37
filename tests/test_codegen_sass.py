"""Machine code as it is printed: instructions, their families and widths, and their control fields."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest
from schedule_data import high, sass

from gdnbench.codegen.sass import (
    Control,
    Instruction,
    family_of,
    listing,
    normalize,
    read_control,
    read_controls,
    read_instructions,
    read_mix,
    widest_load_bits,
)
from gdnbench.errors import MachineError

DATA = Path(__file__).parent / "data" / "binary"
V4 = (DATA / "decode_v4_sm_100.sass").read_text()
V6 = (DATA / "decode_v6_sm_90.sass").read_text()


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


def _one(text):
    [found] = read_instructions(f"        /*0090*/                   {text}   /* 0x0000df00ff017b82 */")
    return found


def test_an_instruction_has_its_parts():
    assert _one("@!P0 LDG.E.EF.128 R4, desc[UR4][R2.64+0x10] ;") == Instruction(
        "0090", "!P0", "LDG", ("E", "EF", "128"), "R4, desc[UR4][R2.64+0x10]"
    )
    assert str(_one("@UP1 UMOV UR4, 0x400 ;")) == "@UP1 UMOV UR4, 0x400"
    assert str(_one("NOP;")) == "NOP"


def test_every_line_of_a_kernel_is_read_and_no_encoding():
    addresses = [int(one.address, 16) for one in read_instructions(V6)]
    assert addresses == list(range(0, 16 * len(addresses), 16))
    assert listing(V6).count("\n") == len(addresses) - 1
    assert "0x000" not in listing(V6)


def test_a_kernel_that_copies_into_shared_memory():
    mix = read_mix(V6)
    assert mix.families["global-to-shared copy 128"] == 1
    assert mix.families["shared load 128"] == 1
    assert "global load 128" not in mix.families
    assert (mix.hints["BYPASS"], mix.families["shuffle"]) == (1, 10)
    assert mix.opcodes["LDGSTS.E.BYPASS.128"] == 1
    assert (mix.spill_store_bytes, mix.spill_load_bytes) == (0, 0)


@pytest.mark.parametrize("sass", [V4, V6])
def test_the_families_add_up(sass):
    mix = read_mix(sass)
    assert sum(mix.families.values()) == sum(mix.opcodes.values()) == mix.instructions
    assert mix.code_bytes == 16 * (mix.instructions + sass.count("NOP"))
    assert "other" not in mix.families


def test_spills_are_counted_in_bytes():
    lines = (
        "STL.64 [R1], R4 ;",
        "STL [R1+0x8], R6 ;",
        "LDL.LU R4, [R1] ;",
        "LDL.128 R4, [R1] ;",
        "STG.E.64 [R2], R4 ;",
    )
    mix = read_mix("\n".join(f"  /*{16 * number:04x}*/  {line}" for number, line in enumerate(lines)))
    assert (mix.spill_store_bytes, mix.spill_load_bytes) == (8 + 4, 4 + 16)


def test_warpgroup_products_are_counted_but_those_that_multiply_nothing():
    lines = (
        "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT ;",
        "HGMMA.64x64x16.F32.BF16 R24, R120, gdesc[UR4], R24, gsb0 ;",
        "QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24, gsb0 ;",
        "HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0 ;",
        "HMMA.16816.F32.BF16 R4, R8, R12, R4 ;",
    )
    mix = read_mix("\n".join(f"  /*{16 * number:04x}*/  {line}" for number, line in enumerate(lines)))
    assert mix.warpgroup_products == 3
    assert read_mix(V6).warpgroup_products == 0


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("LDG.E.U16.CONSTANT R7, desc[UR4][R2.64] ;", "global load 16"),
        ("STG.E.EF.128 desc[UR4][R2.64], R4 ;", "global store 128"),
        ("LDCU.64 UR6, c[0x0][0x358] ;", "constant load 64"),
        ("UTMALDG.2D [UR8], [UR4] ;", "TMA load"),
        ("UTMASTG.2D [UR8], [UR4] ;", "TMA store"),
        ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24 ;", "tensor core"),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4 ;", "tensor core"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0 ;", "tensor core"),
        ("LDTM.x64 R4, tmem[UR4] ;", "tensor memory"),
        ("UTCBAR [UR4], URZ ;", "wait or fence"),
        ("MUFU.EX2 R4, R4 ;", "special function"),
        ("SHFL.BFLY PT, R4, R5, 0x10, 0x1f ;", "shuffle"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0 ;", "block barrier"),
        ("WARPSYNC.ALL ;", "warp barrier"),
        ("DEPBAR.LE SB0, 0x0 ;", "wait or fence"),
        ("IMAD.MOV.U32 R4, RZ, RZ, R5 ;", "move"),
        ("IMAD.WIDE R4, R5, R6, R8 ;", "integer and address"),
        ("ISETP.GE.AND P0, PT, R4, 0x10, PT ;", "comparison"),
        ("BRA 0x90 ;", "branch"),
        ("SOMETHINGNEW R4 ;", "other"),
    ],
)
def test_each_family(text, family):
    assert family_of(_one(text)) == family


NOTHING = Control(
    stall=1, yields=False, write_scoreboard=None, read_scoreboard=None, waits=(), reuse=0
)  # as `high()` has it


@pytest.mark.parametrize(
    ("word", "control"),
    [
        # S2R R16, SR_TID.X of decode-v6
        (0x000E6E0000002100, Control(7, False, 1, None, (), 0)),
        # LEA R13, R16.reuse, UR4, 0x4
        (0x040FE2000F8E20FF, Control(1, False, None, None, (), 0b0001)),
        # SHF.R.U32.HI R0, RZ, 0x5, R16 waits for that S2R
        (0x002FCA0000011610, Control(5, True, None, None, (1,), 0)),
        # NOP that pads
        (0x000FC00000000000, Control(0, True, None, None, (), 0)),
    ],
)
def test_words_of_a_real_kernel(word, control):
    assert read_control(word) == control


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        ({"stall": 0}, {"stall": 0}),
        ({"stall": 15}, {"stall": 15}),
        ({"yields": True}, {"yields": True}),
        ({"write": 0}, {"write_scoreboard": 0}),
        ({"write": 5, "read": 2}, {"write_scoreboard": 5, "read_scoreboard": 2}),
        ({"read": 0}, {"read_scoreboard": 0}),
        ({"waits": (0,)}, {"waits": (0,)}),
        ({"waits": (0, 1, 2, 3, 4, 5)}, {"waits": (0, 1, 2, 3, 4, 5)}),
        ({"reuse": 0b1001}, {"reuse": 0b1001}),
    ],
)
def test_each_field_is_read_by_itself(fields, told):
    assert asdict(read_control(high(**fields))) == asdict(NOTHING) | told


def test_a_recorded_kernel_holds_together():
    text = (DATA / "decode_v6_sm_90.sass").read_text()
    controls = read_controls(text, 272)
    assert sum(control.reuse > 0 for control in controls) == sum(".reuse" in line for line in text.splitlines())
    assert controls[1] == Control(7, False, 1, None, (), 0)
    waited = {number for control in controls for number in control.waits}
    held = {number for one in controls for number in (one.write_scoreboard, one.read_scoreboard)}
    assert waited <= held


def test_a_listing_without_encodings_is_refused_with_what_to_do():
    with pytest.raises(MachineError, match="printed 0 words for 256 instructions") as caught:
        read_controls((DATA / "decode_v4_sm_100.sass").read_text(), 256)
    assert "--sass" in caught.value.hint


def test_a_listing_that_lacks_a_word_is_refused():
    whole = sass("LDC R1, c[0x0][0x28]", "EXIT")
    assert len(read_controls(whole, 2)) == 2
    with pytest.raises(MachineError, match="3 words for 2"):
        read_controls(whole.rsplit("\n", 1)[0], 2)
