"""Quantities hold what ncu's own pages say, of kernels whose faults are known."""

import math
from functools import cache

import pytest
from ncu_data import DATA, UNFUSED, V1, with_value

from gdnbench.errors import MissingCounterError
from gdnbench.profile.ncu.functions import check_read, functions_of
from gdnbench.profile.ncu.quantities import BY_KEY, QUANTITIES, NcuReport, stalls, value_of
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
        assert value is not None, quantity.key
        assert 0 <= value <= (100.5 if quantity.unit == "%" else math.inf), quantity.key


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
