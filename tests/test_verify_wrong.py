"""Which elements are wrong, told by their pattern."""

import pytest
import torch

from gdnbench.launch.workspace import poison
from gdnbench.model.declaration import RmsGate, UlpGate
from gdnbench.verify.gates import describe_wrong, rms_gate, ulp_gate, unchanged_gate, written_gate

AXES = ("B", "axis 1", "HV", "V")
GATE = UlpGate("output", ulps=1.0, atol=1e-5)


def spread(*places, size=(2, 1, 8, 128)):
    failing = torch.zeros(size, dtype=torch.bool)
    for place in places:
        failing[place] = True
    return describe_wrong(failing, tuple(failing.nonzero()[0].tolist()), None, None, AXES).spread


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([(slice(None),)], "every B, HV, V"),
        ([(1, 0, 3, 17)], "B 1 of 2; HV 3 of 8; V 17 of 128"),
        ([(slice(None), 0, slice(4, 8))], "HV 4-7 of 8; every B, V"),
        ([(0, 0, 1), (0, 0, 3), (0, 0, 4)], "B 0 of 2; HV 1,3-4 of 8; every V"),
        ([(slice(None), 0, slice(None), slice(0, None, 2))], "V 0,2,…,126 of 128; every B, HV"),
        ([(0, 0, 0, n * n) for n in range(11)], "B 0 of 2; HV 0 of 8; V at 11 places from 0 to 100 of 128"),
    ],
)
def test_a_pattern_is_told_axis_by_axis(places, told):
    assert spread(*places) == told


def test_a_tensor_of_one_element():
    assert describe_wrong(torch.ones(1, 1, dtype=torch.bool), (0, 0), None, None).spread == "its one element"


def test_nothing_wrong_is_nothing_to_tell():
    assert describe_wrong(torch.zeros(4, dtype=torch.bool), (0,), None, None) is None


def test_the_accuracy_gate_tells_the_worst_value_and_how_many_are_wrong():
    expected = torch.ones(2, 1, 8, 128, dtype=torch.float64)
    actual = expected.bfloat16()
    actual[:, :, 3, ::2] = 1.5
    actual[1, 0, 3, 4] = -7
    gate = ulp_gate(GATE, "typical", actual, expected, AXES)
    assert (gate.wrong.count, gate.wrong.of) == (2 * 64, 2 * 8 * 128)
    assert (gate.wrong.got, gate.wrong.expected, gate.where) == (-7.0, 1.0, "[1, 0, 3, 4]")
    assert "got -7, expected 1; 128 of 2,048 wrong; HV 3 of 8; V 0,2,…,126 of 128; every B" in gate.reason


def test_a_value_that_is_no_number_is_shown_as_it_is():
    expected = torch.ones(4, dtype=torch.float64)
    gate = ulp_gate(GATE, "typical", torch.tensor([1.0, float("nan"), 1.0, 1.0]), expected, ("V",))
    assert "got nan, expected 1; 1 of 4 wrong; V 1 of 4" in gate.reason


def test_a_gate_that_is_passed_tells_of_nothing_wrong():
    expected = torch.rand(64, dtype=torch.float64)
    assert ulp_gate(GATE, "typical", expected.bfloat16(), expected).wrong is None
    assert rms_gate(RmsGate("new_state", 1e-2), "typical", expected.bfloat16(), expected).wrong is None


def test_the_state_gate_tells_the_elements_that_are_further_off_than_all_may_be():
    expected = torch.rand(4, 8, dtype=torch.float64) + 1
    actual = expected.clone()
    actual[2] += 1e-3
    gate = rms_gate(RmsGate("new_state", 1e-6), "typical", actual, expected, ("HV", "V"))
    assert (gate.wrong.count, gate.wrong.spread) == (8, "HV 2 of 4; every V")


def test_what_was_never_written_has_no_value():
    tensor = torch.zeros(4, 4)
    poison([tensor[1]])
    gate = written_gate("output", "typical", tensor, ("HV", "V"))
    assert gate.reason == (
        "output written: fails for 4 elements, first at [1, 0]: 4 of 16 wrong; HV 1 of 4; every V (typical inputs)"
    )


def test_an_input_that_changed_shows_both_values():
    before = torch.ones(4)
    after = before.clone()
    after[3] = 5
    gate = unchanged_gate("state", "typical", before, after, ("V",))
    assert "got 5, expected 1; 1 of 4 wrong; V 3 of 4" in gate.reason
