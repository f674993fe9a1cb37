"""Every cycle stands in one account, whatever was recorded."""

import math
from dataclasses import replace

import pytest
from diagnose_data import RECORDED, coded, recorded

from gdnbench.diagnose.account import account_of
from gdnbench.diagnose.launch import launch_of_anatomy, launch_of_profile
from gdnbench.profilers.ncu.profile import Metric
from gdnbench.profilers.ncu.store import read_profiles

NAMES = sorted(path.name.removesuffix(".csv.gz") for path in RECORDED.glob("*-B*[0-9].csv.gz"))
ACCOUNTS = ("launch", "uneven", "empty", "waiting", "issuing")


def account(name):
    [*_, last] = recorded(name)
    return last.account


def test_there_are_recordings_of_all_specimens():
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_the_accounts_are_shares_of_one_whole(name):
    for profile in read_profiles(RECORDED / f"{name}.csv.gz"):
        found = account_of(profile, launch_of_profile(profile))
        shares = [getattr(found, each) for each in ACCOUNTS]
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) == pytest.approx(1)
        assert sum(found.reasons.values()) == pytest.approx(1)
        assert {"selected", "not_selected"}.isdisjoint(found.reasons)


def test_where_the_cycles_of_known_kernels_go():
    assert account("decode-floor-empty-B1").launch > 0.8
    assert account("decode-v1-B1").empty > 0.3  # three of four schedulers of an SM have no warp
    assert account("decode-v4-B1").empty < 0.1
    assert account("test-tail-B17").uneven > 0.3
    assert account("test-arithmetic-B64").issuing == pytest.approx(0.80, abs=0.01)
    assert account("decode-floor-copy-B256").waiting > 0.8


def test_of_sms_without_a_block_nothing_is_counted():
    """64 blocks on 132 SMs: the average over all SMs would call half of the time idle."""
    assert account("decode-triton-B1").uneven < 0.05


@pytest.mark.parametrize(
    "counter", ["sm__cycles_active.max", "smsp__cycles_active.avg", "sm__cycles_elapsed.max", "launch__grid_size"]
)
@pytest.mark.parametrize("value", [math.nan, None])
def test_a_missing_or_unread_counter_closes_the_accounts(counter, value):
    [evidence, *_] = recorded("decode-v4-B64")
    metrics = {name: metric for name, metric in evidence.profile.metrics.items() if name != counter}
    if value is not None:
        metrics[counter] = Metric(counter, "", value)
    broken = replace(evidence, profile=replace(evidence.profile, metrics=metrics))
    assert broken.account is None


def test_the_code_implies_the_launch_that_ncu_saw():
    for label, batch in (
        ("decode-v1", 1),
        ("decode-v4", 64),
        ("decode-v6", 8),
        ("test-tail", 17),
        ("test-conflicts", 64),
    ):
        seen = launch_of_profile(recorded(f"{label}-B{batch}")[0].profile)
        implied = launch_of_anatomy(coded(label, batch).anatomy)
        assert (implied.blocks, implied.threads, implied.sms) == (seen.blocks, seen.threads, seen.sms)
        assert implied.blocks_per_sm == seen.blocks_per_sm
        assert implied.waves == pytest.approx(seen.waves)


def test_waves_are_those_that_ncu_tells():
    for name in NAMES:
        profile = recorded(name)[0].profile
        told = profile.number("launch__waves_per_multiprocessor")
        assert launch_of_profile(profile).waves == pytest.approx(told, rel=0.01)
