"""SASS made comparable, and what a cubin says of its block."""

import re
from pathlib import Path

from gdnbench.binary.block import parse_required_threads
from gdnbench.binary.normal import normal_lines

V6 = (Path(__file__).parent / "data" / "binary" / "decode_v6_sm_90.sass").read_text()


def _lines(*texts):
    return normal_lines("\n".join(f"/*{16 * number:04x}*/  {text} ;" for number, text in enumerate(texts)))


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
    assert normal_lines(other) == normal_lines(V6)


def test_the_block_that_a_cubin_asks_for():
    text = "\tAttribute:\tEIATTR_REQNTID\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x80 0x2 0x1 \n"
    assert parse_required_threads(text) == 256
    assert parse_required_threads(text.replace("REQNTID", "MAX_THREADS")) is None
