"""Every cycle is counted once, whatever was recorded."""

import math
from dataclasses import replace

import pytest
from diagnose_data import RECORDED, coded, recorded
from ncu_data import UNFUSED

from gdnbench.diagnose.launch import compiled_launch, cycle_breakdown, profiled_launch
from gdnbench.profile.ncu.quantities import Metric
from gdnbench.profile.ncu.store import read_profiles

NAMES = sorted(path.name.removesuffix(".csv.gz") for path in RECORDED.glob("*-B*.csv.gz") if path != UNFUSED)
PARTS = ("launch", "uneven", "empty", "waiting", "issuing")


def cycles(name):
    [*_, last] = recorded(name)
    return last.cycles


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_are_shares_of_one_whole(name):
    for profile in read_profiles(RECORDED / f"{name}.csv.gz"):
        found = cycle_breakdown(profile, profiled_launch(profile))
        shares = [getattr(found, each) for each in PARTS]
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) == pytest.approx(1)
        assert sum(found.reasons.values()) == pytest.approx(1)
        assert {"selected", "not_selected"}.isdisjoint(found.reasons)


def test_where_the_cycles_of_known_kernels_go():
    assert cycles("decode-floor-empty-B1").launch > 0.8
    assert cycles("decode-v1-B1").empty > 0.3  # three of four schedulers of an SM have no warp
    assert cycles("decode-v4-B1").empty < 0.1
    assert cycles("test-tail-B17").uneven > 0.3
    assert cycles("test-arithmetic-B64").issuing == pytest.approx(0.80, abs=0.01)
    assert cycles("decode-floor-copy-B256").waiting > 0.8


@pytest.mark.parametrize(
    "counter", ["sm__cycles_active.max", "smsp__cycles_active.avg", "sm__cycles_elapsed.max", "launch__grid_size"]
)
@pytest.mark.parametrize("value", [math.nan, None])
def test_a_missing_or_unread_counter_leaves_no_breakdown(counter, value):
    [evidence, *_] = recorded("decode-v4-B64")
    metrics = {name: metric for name, metric in evidence.profile.metrics.items() if name != counter}
    if value is not None:
        metrics[counter] = Metric(counter, "", value)
    broken = replace(evidence, profile=replace(evidence.profile, metrics=metrics))
    assert broken.cycles is None


def test_the_code_implies_the_launch_that_ncu_saw():
    for label, batch in (
        ("decode-v1", 1),
        ("decode-v4", 64),
        ("decode-v6", 8),
        ("test-tail", 17),
        ("test-conflicts", 64),
    ):
        seen = profiled_launch(recorded(f"{label}-B{batch}")[0].profile)
        implied = compiled_launch(coded(label, batch).compiled)
        assert (implied.blocks, implied.threads, implied.sms) == (seen.blocks, seen.threads, seen.sms)
        assert implied.blocks_per_sm == seen.blocks_per_sm
        assert implied.waves == pytest.approx(seen.waves)


def test_waves_are_those_that_ncu_tells():
    for name in NAMES:
        profile = recorded(name)[0].profile
        told = profile.number("launch__waves_per_multiprocessor")
        assert profiled_launch(profile).waves == pytest.approx(told, rel=0.01)
