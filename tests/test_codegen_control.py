"""Control fields of encodings: of recorded words, and bit by bit."""

from dataclasses import asdict
from pathlib import Path

import pytest
from schedule_data import high, sass

from gdnbench.codegen.sass import Control, read_control, read_controls
from gdnbench.errors import MachineError

DATA = Path(__file__).parent / "data" / "binary"

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
