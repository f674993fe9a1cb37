"""What a sweep found, and its way through JSON."""

from dataclasses import replace

import pytest
from sweep_data import JOINT, KERNEL, LARGE, SMALL, label_of

from gdnbench.model.measurement import OneForAll


def test_a_plateau_knows_its_own_points_fastest_first():
    small, large = JOINT.plateaus
    assert [each.slower_by for each in JOINT.of(small)] == [0.0, 0.001, 0.004, 0.02, 0.31]
    assert {each.workload for each in JOINT.of(large)} == {LARGE}
    label = label_of({"BV": 16, "WARPS": 4})
    assert JOINT.point(small, label).slower_by == 0.0
    assert JOINT.point(large, label).slower_by == 0.07


def test_one_point_for_all_workloads_is_known_by_its_worst():
    one = OneForAll(kernel=KERNEL, label="x", regret={SMALL: 0.01, LARGE: 0.05})
    assert one.worst == (LARGE, 0.05)
    assert one.mean == pytest.approx(0.03)


@pytest.mark.parametrize("field", ["best", "simplest", "tied", "unclear"])
def test_a_plateau_without_its_points_is_refused(field):
    small, large = JOINT.plateaus
    elsewhere = label_of({"BV": 8, "WARPS": 4})  # a point of the small workload only
    lame = replace(large, **{field: (elsewhere,) if field in {"tied", "unclear"} else elsewhere})
    with pytest.raises(ValueError, match="B=64"):
        replace(JOINT, plateaus=(small, lame))


def test_one_for_all_that_no_point_has_is_refused():
    with pytest.raises(ValueError, match="decode-y"):
        replace(JOINT, one_for_all=(OneForAll(kernel=KERNEL, label="decode-y", regret={SMALL: 0.0}),))
