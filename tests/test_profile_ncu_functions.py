"""Only what moved by more than launches spread is shown."""

import math
import random

import pytest
from ncu_data import TRITON, UNFUSED, V1, V4, with_value

from gdnbench.errors import UsageError
from gdnbench.profile.ncu.functions import compare_functions, functions_of, has_changed
from gdnbench.profile.ncu.quantities import NcuReport
from gdnbench.profile.ncu.report import read_any
from gdnbench.profile.ncu.store import read_profiles


def _functions(path):
    return functions_of(NcuReport(path, read_any(path)))


def _of(profiles):
    return functions_of(NcuReport(V1, tuple(profiles)))


@pytest.mark.parametrize("path", [V1, V4, TRITON])
def test_a_kernel_does_not_differ_from_itself(path):
    [difference] = compare_functions(_functions(path), _functions(path))
    assert difference.changes == ()
    assert difference.has_spread
    assert difference.compared > 40


def test_v1_and_v4_differ_in_the_mechanism():
    [difference] = compare_functions(_functions(V1), _functions(V4))
    changes = {change.key: change for change in difference.changes}
    assert changes["duration_us"].verdict == "better"
    assert changes["instructions"].verdict == "worse"
    assert changes["instructions"].ratio == pytest.approx(196608 / 65792)
    assert changes["registers"].verdict == ""
    assert "stall_not_selected" in changes
    assert math.isnan(changes["stall_not_selected"].ratio)
    for same in ("grid_blocks", "shared_bytes", "sms", "dram_read_bytes", "l2_hit_pct", "stall_selected"):
        assert same not in changes
    groups = [change.group for change in difference.changes]
    assert groups == sorted(groups, key=list(dict.fromkeys(groups)).index)


def test_a_counter_that_one_report_lacks_is_not_compared():
    profiles = read_profiles(V1)
    lacking = [
        type(one)(**{**vars(one), "metrics": {n: m for n, m in one.metrics.items() if "duration" not in n}})
        for one in profiles
    ]
    [difference] = compare_functions(_of(lacking), _functions(V4))
    [whole] = compare_functions(_functions(V1), _functions(V4))
    assert difference.compared == whole.compared - 1


def test_nan_moves_nothing():
    profiles = [with_value(one, "smsp__inst_executed.sum", math.nan) for one in read_profiles(V1)]
    [difference] = compare_functions(_of(profiles), _functions(V4))
    assert "instructions" not in {change.key for change in difference.changes}


def test_kernels_of_many_functions():
    unfused = _functions(UNFUSED)
    assert all(difference.changes == () for difference in compare_functions(unfused, unfused))
    with pytest.raises(UsageError, match="4 and 1"):
        compare_functions(unfused, _functions(V1))


@pytest.mark.parametrize(
    ("before", "after", "unit", "moved"),
    [
        ((10, 10.1, 10.2), (11, 11.1, 11.2), "µs", True),
        ((10, 10.4, 10.8), (11, 11.1, 11.2), "µs", False),  # apart, but by less than they spread
        ((100, 100, 100), (101, 101, 101), "", False),  # exact, and of no account
        ((100, 100, 100), (103, 103, 103), "", True),
        ((0, 0, 0), (5, 5, 5), "", True),
        ((0, 0, 0), (0, 0, 0), "", False),
        ((1, 1, 1), (1.4, 1.4, 1.4), "%", False),  # 40 %, of one point in a hundred
        ((1, 1, 1), (1.6, 1.6, 1.6), "%", True),
        ((0.01, 0.01, 0.01), (0.04, 0.04, 0.04), "cycles", False),
        ((math.nan, 1, 1), (5, 5, 5), "", False),
    ],
)
def test_the_rule(before, after, unit, moved):
    assert has_changed(before, after, unit) is moved
    assert has_changed(after, before, unit) is moved


def test_how_often_equal_kernels_pretend_to_differ():
    draw = random.Random(7)
    tries = 20_000
    wide = [[draw.gauss(100, 20) for _ in range(6)] for _ in range(tries)]
    wrong = sum(has_changed(values[:3], values[3:], "µs") for values in wide)
    assert 1 / 180 < wrong / tries < 1 / 100
