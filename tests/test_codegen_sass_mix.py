"""Instructions read and counted in recorded SASS."""

from pathlib import Path

import pytest

from gdnbench.codegen.sass import Instruction, family_of, listing, read_instructions, read_mix

DATA = Path(__file__).parent / "data" / "binary"
V4 = (DATA / "decode_v4_sm_100.sass").read_text()
V6 = (DATA / "decode_v6_sm_90.sass").read_text()


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


def test_no_code_has_no_mix():
    assert read_mix("").instructions == 0


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
