"""Strategies against recorded profiles, each of a kernel with one known flaw; every cycle is counted once."""

import math
from dataclasses import replace

import pytest
from committed import RESULTS
from diagnose_data import RECORDED, coded, measured, recorded
from ncu_data import UNFUSED

from gdnbench.diagnose.evidence import launched_entries
from gdnbench.diagnose.launch import compiled_launch, cycle_breakdown, profiled_launch
from gdnbench.diagnose.strategies import STRATEGIES, StrategyState, judge_strategies
from gdnbench.ledger.entry import EntryState
from gdnbench.ledger.file import read_ledger
from gdnbench.profile.ncu.quantities import Metric
from gdnbench.profile.ncu.store import read_profiles

UNTRIED, TRIED, RULED_OUT, UNKNOWN = StrategyState
LEDGER = read_ledger(RESULTS / "ledger.jsonl")

# What each recorded kernel leaves to try: what it was made for, or is known for, and little else.
LEFT = {
    "decode-v1-B1": {"warps"},
    "decode-v4-B1": set(),
    "decode-v4-B64": {"persistent"},
    "test-spilling-B64": {"registers", "one pass"},
    "test-scattered-B64": {"layout", "one pass"},
    "test-conflicts-B64": {"shuffles", "register limit", "persistent"},
    "test-barriers-B64": {"barriers", "shuffles", "persistent"},
    "test-arithmetic-B64": {"chains", "persistent"},
}


def states(evidence, entries=()):
    return {each.strategy.name: each for each in judge_strategies(evidence, entries)}


@pytest.mark.parametrize("name", LEFT)
def test_what_a_recorded_kernel_leaves_to_try_is_what_it_lacks(name):
    found = states(recorded(name)[0])
    assert {each for each, one in found.items() if one.state is UNTRIED} == LEFT[name]


@pytest.mark.parametrize("name", LEFT)
def test_a_strategy_has_evidence_for_its_state_and_a_command_where_it_is_untried(name):
    for each in states(recorded(name)[0]).values():
        assert bool(each.evidence) == (each.state is not UNKNOWN)
        assert (each.experiment is not None) == (each.state is UNTRIED)  # there is a profile: none is asked for
        assert not each.experiment or each.experiment.command[0] == "gdnbench"


def test_without_a_profile_the_code_decides_what_it_can_and_a_profile_is_proposed_for_the_rest():
    found = states(coded("decode-v1"))
    assert {each for each, one in found.items() if one.state is UNTRIED} == {"warps", "early loads"}
    unknown = {each for each, one in found.items() if one.state is UNKNOWN}
    assert unknown == {"one pass", "chains", "layout"}
    assert {found[each].experiment.command[1] for each in unknown} == {"ncu"}
    assert states(coded("test-spilling", 64))["registers"].state is UNTRIED


def test_the_order_is_kept_and_no_name_is_there_twice():
    names = [each.strategy.name for each in judge_strategies(coded("decode-v1"), ())]
    assert names == [each.name for each in STRATEGIES]
    assert len(set(names)) == len(names)


def test_launches_of_a_call_are_what_was_declared_or_counted():
    one = coded("decode-v1")
    assert len(launched_entries(one.entry)) == 1
    assert states(one)["fusion"].state is RULED_OUT
    assert states(replace(one, measured=measured(5.0, launches=3)))["fusion"].state is UNTRIED


def test_what_the_ledger_refuted_is_ruled_out_and_says_by_which_entry():
    before, found = states(coded("decode-v9")), states(coded("decode-v9"), LEDGER.values())
    assert (before["chains"].state, found["chains"].state) == (UNKNOWN, RULED_OUT)
    [line] = found["chains"].evidence
    assert line.startswith("ledger 4, refuted: ")
    assert LEDGER[4].opened.hypothesis in line
    assert states(coded("decode-v1"), LEDGER.values())["chains"].state is UNKNOWN  # the entry is on decode-v9


@pytest.mark.parametrize("outcome", [EntryState.CONFIRMED, EntryState.UNDECIDED])
def test_what_the_ledger_has_and_did_not_refute_was_tried(outcome):
    entry = LEDGER[4]
    entry = replace(entry, closings=(replace(entry.closings[-1], outcome=outcome),))
    assert states(coded("decode-v9"), [entry])["chains"].state is TRIED
    other_op = replace(entry, opened=replace(entry.opened, op="prefill"))
    assert states(coded("decode-v9"), [other_op])["chains"].state is UNKNOWN
    other_idea = replace(entry, opened=replace(entry.opened, hypothesis="the clock is higher"))
    assert not any(each.state is TRIED for each in states(coded("decode-v9"), [other_idea]).values())


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
