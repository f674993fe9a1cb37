from dataclasses import replace

import pytest
from decode_workloads import decode_at
from sweep_data import JOINT, label_of

from gdnbench.model.case import Case, Variant
from gdnbench.model.measurement import Measurement, Timing
from gdnbench.model.status import Status

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


@pytest.mark.parametrize("field", ["best", "simplest", "tied", "unclear"])
def test_a_plateau_without_its_points_is_refused(field):
    small, large = JOINT.plateaus
    elsewhere = label_of({"BV": 8, "WARPS": 4})  # a point of the small workload only
    lame = replace(large, **{field: (elsewhere,) if field in {"tied", "unclear"} else elsewhere})
    with pytest.raises(ValueError, match="B=64"):
        replace(JOINT, plateaus=(small, lame))
