"""Quantities hold what ncu's own pages say, and differences what moved by more than launches spread."""

import math
import random
from functools import cache

import pytest
from ncu_data import DATA, TRITON, UNFUSED, V1, V4, with_value

from gdnbench.errors import MissingCounterError, UsageError
from gdnbench.profile.ncu.functions import check_read, compare_functions, functions_of, has_changed
from gdnbench.profile.ncu.quantities import BY_KEY, QUANTITIES, NcuReport, stalls, value_of
from gdnbench.profile.ncu.report import read_any
from gdnbench.profile.ncu.store import read_profiles


@cache  # a quarter of a second a report
def _read(name):
    return read_profiles(DATA / f"{name}.csv.gz")[0]


STORED = [path.name.removesuffix(".csv.gz") for path in DATA.glob("*.csv.gz") if path != UNFUSED]

# ncu's details page of the same launch.
DETAILS = {
    "duration_us": 3.68,
    "cycles": 7244,
    "sm_mhz": 1970,
    "dram_pct": 3.07,
    "l1_pct": 4.53,
    "l2_pct": 8.79,
    "sm_pct": 1.78,
    "ipc": 0.14,
}


@pytest.mark.parametrize("key", DETAILS)
def test_the_numbers_of_the_details_page(key):
    assert value_of(_read("decode-v1-B1"), key) == pytest.approx(DETAILS[key], rel=0.005, abs=0.005)


@pytest.mark.parametrize("name", STORED)
def test_every_quantity_of_every_recorded_report(name):
    for quantity in QUANTITIES:
        value = quantity.read(_read(name))
        assert value is not None or quantity.key.endswith("_ways"), quantity.key  # of no access to shared memory
        assert 0 <= (value or 0) <= (100.5 if quantity.unit == "%" else math.inf), quantity.key


def test_kernels_with_a_fault_show_it():
    sound = _read("decode-v4-B64")
    spilling, scattered, conflicts = (_read(f"test-{fault}-B64") for fault in ("spilling", "scattered", "conflicts"))
    barriers, tail = _read("test-barriers-B64"), _read("test-tail-B17")
    assert value_of(sound, "spill_requests") == 0 < value_of(spilling, "spill_requests")
    assert value_of(scattered, "load_bytes_per_sector") < 4
    assert value_of(sound, "load_bytes_per_sector") > 28
    assert value_of(sound, "excess_sectors") == 0 < value_of(scattered, "excess_sectors")
    assert value_of(scattered, "excess_sectors") < value_of(scattered, "global_sectors")
    assert value_of(conflicts, "excess_wavefronts") == pytest.approx(
        0.9 * value_of(conflicts, "shared_wavefronts"), rel=0.01
    )
    assert "barrier" in list(stalls(barriers))[:3]
    assert value_of(tail, "sm_imbalance") > 1.3 > value_of(sound, "sm_imbalance")


@pytest.mark.parametrize("name", STORED)
def test_stalls_together_are_a_warps_latency(name):
    profile = _read(name)
    found = stalls(profile)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    latency = profile.number("smsp__average_warp_latency_per_inst_issued.ratio")
    assert sum(found.values()) == pytest.approx(latency, rel=0.2)  # each comes from a replay of its own


def test_a_ratio_of_nothing_is_not_there():
    idle = with_value(_read("decode-v1-B1"), "sm__cycles_active.avg", 0.0)
    assert value_of(idle, "sm_imbalance") is None


def test_no_share_of_a_sum_that_lacks_a_part():
    barrier = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
    profile = with_value(_read("test-barriers-B64"), barrier, math.nan)
    assert stalls(profile) == {}
    with pytest.raises(MissingCounterError, match="barrier of test-barriers"):
        check_read(functions_of(NcuReport(V1, (profile,))))


def test_a_counter_that_is_absent_and_one_that_is_nan():
    first, *rest = read_profiles(V1)
    absent = {name: metric for name, metric in first.metrics.items() if not name.startswith("dram__")}
    [function] = functions_of(NcuReport(V1, (type(first)(**{**vars(first), "metrics": absent}), *rest)))
    assert len(function.values(BY_KEY["dram_read_bytes"])) == 2
    check_read([function])
    [function] = functions_of(NcuReport(V1, (with_value(first, "dram__bytes_read.sum", math.nan), *rest)))
    assert math.isnan(function.median(BY_KEY["dram_read_bytes"]))
    with pytest.raises(MissingCounterError, match="DRAM read of decode-v1"):
        check_read([function])


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
