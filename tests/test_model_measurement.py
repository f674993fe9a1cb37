from dataclasses import replace

import pytest
from decode_workloads import decode_at
from sweep_data import JOINT, LARGE, label_of

from gdnbench.model.case import Case, Variant
from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.status import GateResult, Status

CASE = Case(Variant("decode-v4", "decode-v4"), decode_at())
TIMING = Timing(
    timer="nvbench", samples=100, rounds=5, time_us=4.0, time_lo_us=3.9, time_hi_us=4.1, min_us=3.8, p10_us=3.9,
    p90_us=4.2, median_us=4.0, noise=0.01,
)  # fmt: skip
FAILURES = [status for status in Status if status is not Status.OK]


@pytest.mark.parametrize("status", FAILURES)
def test_a_time_cannot_stand_beside_a_failure(status):
    with pytest.raises(ValueError, match=f"time.*{status}"):
        Measurement(case=CASE, status=status, reason="because", timing=TIMING)


@pytest.mark.parametrize("status", FAILURES)
def test_a_failure_needs_a_reason(status):
    with pytest.raises(ValueError, match="reason"):
        Measurement(case=CASE, status=status)
    assert Measurement(case=CASE, status=status, reason="because").timing is None


def test_a_gates_reason_says_what_how_much_and_where():
    gate = GateResult("output within 1 ulp", "typical", 2.5, 1.0, "[0, 3]", "wrong-numbers")
    assert not gate.passed
    for part in ("output within 1 ulp", "2.5", "[0, 3]", "typical"):
        assert part in gate.reason


def test_a_plateau_knows_its_own_points_fastest_first():
    small, large = JOINT.plateaus
    assert [each.slower_by for each in JOINT.of(small)] == [0.0, 0.001, 0.004, 0.02, 0.31]
    assert {each.workload for each in JOINT.of(large)} == {LARGE}
    label = label_of({"BV": 16, "WARPS": 4})
    assert JOINT.point(small, label).slower_by == 0.0
    assert JOINT.point(large, label).slower_by == 0.07


@pytest.mark.parametrize("field", ["best", "simplest", "tied", "unclear"])
def test_a_plateau_without_its_points_is_refused(field):
    small, large = JOINT.plateaus
    elsewhere = label_of({"BV": 8, "WARPS": 4})  # a point of the small workload only
    lame = replace(large, **{field: (elsewhere,) if field in {"tied", "unclear"} else elsewhere})
    with pytest.raises(ValueError, match="B=64"):
        replace(JOINT, plateaus=(small, lame))
