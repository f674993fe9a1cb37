"""Every rule against every recording: it comes first where its cause was planted, and nowhere else."""

import math
from dataclasses import replace

import pytest
from diagnose_data import coded, in_order, measured, recorded

from gdnbench.diagnose.gather import LEAST_SHARE, MOST_FINDINGS, RULES, rank
from gdnbench.model.case import CodeState
from gdnbench.model.declaration import CAUSES as CAUSES_OF_HINTS
from gdnbench.profile.ncu.quantities import Metric

# The cause that each kernel was made for, or is known for, and what may be told after it.
CAUSES = {
    "decode-v1-B1": ("too_few_warps", {"latency"}),
    "decode-fla-B1": ("too_few_warps", {"latency"}),
    "decode-v4-B1": ("latency", set()),
    "decode-triton-B1": ("latency", {"idle_sms"}),
    "decode-v6-B8": ("latency", {"uneven_sms"}),
    "decode-v4-B64": ("bandwidth", set()),
    "decode-v4-B256": ("bandwidth", set()),
    "decode-floor-copy-B256": ("bandwidth", set()),
    "decode-floor-empty-B1": ("launch_bound", {"latency"}),
    "test-spilling-B64": ("spilling", {"uneven_sms"}),
    "test-scattered-B64": ("uncoalesced", {"uneven_sms"}),
    "test-conflicts-B64": ("bank_conflicts", {"uneven_sms"}),
    "test-barriers-B64": ("barriers", set()),
    "test-arithmetic-B64": ("compute", set()),
    "test-tail-B17": ("uneven_sms", {"latency", "limited_occupancy"}),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_comes_first_and_none_is_told_that_is_not_there(name):
    first, later = CAUSES[name]
    every = set()
    for evidence in recorded(name):
        findings = rank(evidence)
        assert findings[0].rule == first
        every |= {finding.rule for finding in findings}
        assert len(findings) <= MOST_FINDINGS
        assert [finding.share for finding in findings] == sorted((each.share for each in findings), reverse=True)
        for finding in findings:
            assert LEAST_SHARE <= finding.share <= 1
            assert finding.basis == "counters"
            assert len(finding.facts) >= 2
            assert all(math.isfinite(fact.value) and fact.title and fact.counter for fact in finding.facts)
    assert every == {first, *later}


def test_hints_name_the_rules_that_there_are():
    assert tuple(rule.__name__ for rule in RULES) == CAUSES_OF_HINTS


def test_sms_without_a_block_count_for_no_more_than_the_others_issue():
    """68 of 132 SMs are idle, half of the GPU; but what takes the time is waiting, which no SM shortens."""
    evidence = recorded("decode-triton-B1")[0]
    [idle] = [finding for finding in rank(evidence) if finding.rule == "idle_sms"]
    assert idle.share == pytest.approx(68 / 132 * evidence.cycles.issuing)
    assert idle.share < 0.1


def test_a_report_without_the_counters_leaves_what_the_launch_tells():
    """As of `ncu --set basic`: no cycles of the schedulers, no stalls."""
    evidence = recorded("decode-v1-B1")[0]
    few = {name: metric for name, metric in evidence.profile.metrics.items() if name.startswith("launch__")}
    bare = replace(evidence, profile=replace(evidence.profile, metrics=few))
    assert bare.cycles is None
    assert [(finding.rule, finding.basis) for finding in rank(bare)] == [("too_few_warps", "code")]


def test_a_counter_that_could_not_be_read_makes_no_finding():
    evidence = recorded("test-arithmetic-B64")[0]
    name = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    metrics = {**evidence.profile.metrics, name: Metric(name, "%", math.nan)}
    assert rank(evidence)[0].rule == "compute"
    assert rank(replace(evidence, profile=replace(evidence.profile, metrics=metrics))) == ()


@pytest.mark.parametrize(
    ("label", "batch", "times", "rule", "basis"),
    [
        ("decode-v1", 1, measured(5.1, empty=2.74, copy=3.99), "too_few_warps", "code"),
        ("decode-v2", 1, None, "too_few_warps", "code"),
        ("decode-v4", 1, measured(4.6, empty=2.74, copy=3.99), "latency", "times"),
        ("decode-v4", 1, measured(3.1, empty=2.74, copy=2.9), "launch_bound", "times"),
        ("decode-v4", 64, measured(23.8, empty=7.56, copy=20.55, copy_bytes=67_108_864), "bandwidth", "times"),
        ("test-spilling", 64, None, "spilling", "code"),
        ("test-scattered", 64, None, "narrow_loads", "code"),
        ("test-tail", 17, None, "limited_occupancy", "code"),
    ],
)
def test_without_counters_the_code_and_the_times_tell(label, batch, times, rule, basis):
    first = rank(coded(label, batch, times))[0]
    assert (first.rule, first.basis) == (rule, basis)


def test_without_anything_known_to_be_wrong_nothing_is_told():
    """decode-v6 has warps enough, loads 16 bytes first and spills none; without a time there is no more to say."""
    assert rank(coded("decode-v6", 1)) == ()


@pytest.mark.parametrize(
    ("label", "dependent_loads"), [("decode-v4", 2), ("decode-triton", 2), ("decode-triton-tma", 3)]
)
def test_without_times_either_one_trip_after_the_other_bounds_the_time(label, dependent_loads):
    [told] = [finding for finding in rank(coded(label)) if finding.rule == "latency"]
    assert told.basis == "code"
    assert told.share == pytest.approx(1 - 1 / dependent_loads)
    assert told.facts[0].value == dependent_loads


def test_trips_of_blocks_that_follow_one_another_cover_each_other():
    assert "latency" not in {finding.rule for finding in rank(coded("decode-v4", 64))}


def test_what_the_code_implies_is_no_more_than_there_is_to_gain():
    bare, timed = (coded("decode-v1", 1, times) for times in (None, measured(5.1, empty=2.74, copy=3.99)))
    assert rank(bare)[0].share == pytest.approx(1 - 128 / 528)
    assert rank(timed)[0].share == pytest.approx(1 - 3.99 / 5.1)


def test_times_of_other_code_bound_nothing_that_the_code_implies():
    times = replace(measured(5.1, empty=2.74, copy=3.99), code=CodeState.CHANGED)
    first = rank(coded("decode-v1", 1, times))[0]
    assert (first.basis, first.share) == ("code", pytest.approx(1 - 128 / 528))


def test_times_of_other_code_are_silent_where_counters_of_this_one_speak():
    """Eleven launches were counted of the former code; the counters are of the code as it is."""
    [evidence, *_] = recorded("decode-v4-B1")
    times = replace(measured(28.6, empty=2.74, copy=3.99, launches=11), code=CodeState.CHANGED)
    assert [finding.rule for finding in rank(replace(evidence, measured=times))] == ["latency"]
    both = replace(evidence, measured=times, profile_code=CodeState.CHANGED)
    assert [finding.rule for finding in rank(both)] == ["many_launches"]
    assert both.code_of("times") is CodeState.CHANGED


def test_a_floor_of_unknown_bandwidth_calls_nothing_saturated():
    """The bandwidth of a GPU that gpus.toml lacks is not guessed."""
    assert rank(coded("decode-v4", 64, measured(23.8, copy=20.55, gpu="l40s", copy_bytes=67_108_864))) == ()


def test_counters_of_one_launch_of_many_explain_nothing():
    evidence = recorded("decode-fla-B1")[0]
    [only] = rank(replace(evidence, measured=measured(28.6, empty=2.74, copy=3.99, launches=11)))
    assert (only.rule, only.basis) == ("many_launches", "times")
    assert only.share == pytest.approx(1 - 3.99 / 28.6)
    assert len(rank(replace(evidence, measured=measured(28.6, empty=2.74, copy=3.99, launches=1)))) > 1


def test_loads_that_start_when_others_have_arrived_are_told_with_the_waiting():
    """decode-v4 waits for its gates' tensors, and only then asks for the state."""
    [first] = rank(in_order(recorded("decode-v4-B1")[0], "decode-v4"))
    dependent_loads = first.facts[-1]
    assert (dependent_loads.counter, dependent_loads.value, dependent_loads.note) == (
        "trips",
        2,
        "6 of 8 loads start when others have arrived",
    )
    assert "start all before the first use" in first.meaning
    assert first.experiment.command == ("gdnbench", "inspect", "decode-v4", "--schedule", "--shape", "B=1")


def test_a_faster_kernel_of_the_grid_is_compared_in_its_order():
    times = measured(4.6, empty=2.74, copy=3.99, decode_v6=4.4)
    [first] = rank(replace(in_order(recorded("decode-v4-B1")[0], "decode-v4"), measured=times))
    assert first.experiment.command[:6] == ("gdnbench", "inspect", "decode-v4", "--diff", "decode-v6", "--schedule")


@pytest.mark.parametrize("label", ["decode-v6", "decode-v7", "decode-triton-one"])
def test_loads_that_all_go_out_first_are_no_cause(label):
    [first] = rank(in_order(recorded("decode-v4-B1")[0], label))
    assert "trips" not in {fact.counter for fact in first.facts}
    assert "Load everything first" in first.meaning
    assert "--schedule" not in first.experiment.command


def test_trips_of_a_loop_are_not_known():
    evidence = in_order(recorded("decode-v4-B1")[0], "decode-v4")
    looping = replace(evidence, milestones=replace(evidence.milestones, dependent_loads=None))
    assert (evidence.dependent_loads, looping.dependent_loads) == (2, 0)


def test_where_flops_bound_the_workload_the_gain_is_above_them_and_no_rule_takes_copying_for_the_bound():
    times = replace(measured(20.0, empty=2.0, copy=8.0), flops_us=16.0)
    assert times.gain == pytest.approx(0.2)
    told = {finding.rule for finding in rank(coded("decode-v4", 8, times)) if finding.basis == "times"}
    assert not told & {"latency", "bandwidth"}


@pytest.mark.parametrize(("sm_mhz", "told"), [(1446.0, 0.2697), (1980.0, None), (1930.0, None), (None, None)])
def test_a_lowered_clock_is_a_cause_where_flops_bound_the_workload(sm_mhz, told):
    times = replace(measured(800.0, empty=2.0, copy=300.0), flops_us=500.0, sm_mhz=sm_mhz)
    found = {finding.rule: finding for finding in rank(coded("decode-v4", 8, times))}
    assert ("lowered_clock" in found) == (told is not None)
    if told:
        assert found["lowered_clock"].share == pytest.approx(told, abs=1e-3)
        assert "27% below the highest" in found["lowered_clock"].meaning
    copying = replace(times, flops_us=None)  # a clock of the SMs does not bound what the memory takes
    assert "lowered_clock" not in {finding.rule for finding in rank(coded("decode-v4", 8, copying))}
