"""Launches in records of what a GPU did: their times, names, and what a graph's replays tell."""

import random

import numpy as np
import pytest

from gdnbench.errors import ProfilerError
from gdnbench.measure.worker.graph import LAUNCHES_PER_GRAPH, launches_per_graph, per_launch_us
from gdnbench.stats.estimators import trimmed_mean
from gdnbench.stats.interval import t_interval
from gdnbench.store.settings import GPU_TRIM
from gdnbench.workers import launched

PREFIX = "gdnbench_"


class Timeline:
    def __init__(self):
        self.records, self.now_ns = [], 1_000_000

    def add(self, name, took_ns):
        self.records.append(launched.Activity(name, self.now_ns, self.now_ns + took_ns))
        self.now_ns += took_ns + 700
        return self

    def launch(self, *kernels, dither=0):
        for _ in range(dither):
            self.add(f"{PREFIX}nothing", 500)
        self.add(launched.FILL, 38_000)
        for name, took_ns in kernels:
            self.add(name, took_ns)
        return self.add(f"{PREFIX}end", 500).add(f"{PREFIX}demote_listed", 2_000)


def times_of(records, expected):
    return launched.launch_times_us(launched.split_launches(records, PREFIX), expected)


def test_a_launch_is_the_kernel_between_the_flush_and_the_mark():
    line = Timeline()
    for number in range(5):
        line.launch(("v4", 2_336 + 32 * number), dither=number)
    assert times_of(line.records, 5) == pytest.approx([2.336, 2.368, 2.4, 2.432, 2.464])


def test_kernels_that_overlap_count_once():
    line = Timeline().launch(("a", 4_000))
    start = next(record for record in line.records if record.name == "a").start_ns
    line.records.append(launched.Activity("b", start + 1_000, start + 2_000))
    records = sorted(line.records, key=lambda record: record.start_ns)
    assert times_of(records, 1) == pytest.approx([4.0])


def test_a_kernel_that_fills_memory_itself_is_one_launch():
    line = Timeline()
    for _ in range(4):
        line.launch((launched.FILL, 1_000), ("add", 2_000))
    assert times_of(line.records, 4) == pytest.approx([3.7] * 4)


def test_a_launch_with_a_record_missing_is_left_out_and_not_taken_for_a_fast_one():
    line = Timeline()
    for _ in range(4):
        line.launch(("gates", 1_000), ("scan", 3_000))
    del line.records[1]  # the first launch's `gates`
    assert times_of(line.records, 4) == pytest.approx([4.7] * 3)


def test_a_launch_whose_flush_was_not_recorded_is_left_out():
    line = Timeline()
    for took_ns in (2_000, 9_000, 2_000):
        line.launch(("v4", took_ns))
    line.records.remove(next(r for r in line.records if r.name == launched.FILL and r.start_ns > 1_010_000))
    assert times_of(line.records, 3) == pytest.approx([2.0, 2.0])


def test_two_launches_that_a_missing_mark_joins_are_left_out():
    line = Timeline()
    for _ in range(5):
        line.launch(("v4", 2_000))
    own = [r for r in line.records if r.name.startswith(PREFIX)]
    for record in own[:2]:  # the first launch's `end` and `demote_listed`
        line.records.remove(record)
    assert times_of(line.records, 5) == pytest.approx([2.0] * 3)


@pytest.mark.parametrize("whole", [0, 1, 4])
def test_with_less_than_half_of_the_launches_there_is_no_time(whole):
    line = Timeline()
    for _ in range(whole):
        line.launch(("v4", 2_000))
    for _ in range(10 - whole):
        line.launch()
    with pytest.raises(ProfilerError, match=f"{whole} of 10 launches"):
        times_of(line.records, 10)


def test_cases_are_told_apart_in_whatever_order_records_arrive():
    line = Timeline()
    for took_ns in (1_000, 2_000, 3_000):
        line.add(f"{PREFIX}case", 500)
        for _ in range(3):
            line.launch(("same_name", took_ns), dither=2)
    random.Random(1).shuffle(line.records)
    cases = launched.split_cases(line.records, PREFIX)
    assert [times_of(case, 3) for case in cases] == [pytest.approx([us] * 3) for us in (1.0, 2.0, 3.0)]


# As the linker has it, and as a demangler gives it.
SAME = {
    "gdn_decode_v9": ("gdn_decode_v9", "gdn_decode_v9"),
    "triton_poi_fused_0": ("triton_poi_fused_0", "triton_poi_fused_0"),
    "scale": ("_Z5scalePff", "scale(float*, float)"),
    "own": ("_ZL3ownPf", "own(float*)"),
    "step": ("_ZN2gd4stepEPKf", "gd::step(float const*)"),
    "inner": ("_ZN2gdL5innerEv", "gd::inner()"),
    "gemm": ("_Z4gemmIfLi8EEvPT_", "void gemm<float, 8>(float*)"),
    "vectorized_elementwise_kernel": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
        "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    ),
    "hidden": (
        "_ZN2at6native48_GLOBAL__N__3e2a1b0c_10_Reduce_cu_0123abcd_456786hiddenIfEEvPT_",
        "void at::native::(anonymous namespace)::hidden<float>(float*)",
    ),
    "Kernel2": ("_ZN7cutlass7Kernel2I4GemmEEvNT_6ParamsE", "void cutlass::Kernel2<Gemm>(Gemm::Params)"),
    "elementwise_kernel": (
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIfEEvvEUliE_EEviT1_",
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<float>()::{lambda(int)#1}>(int)",
    ),
    "kernel": (
        "_ZN8internal5gemvx6kernelIiffLb1ELi7EEENSt9enable_ifIXltT3_Li8EEvE4typeEPf",
        "std::enable_if<((int)7)<((int)8), void>::type internal::gemvx::kernel<int, float, float, true>(float*)",
    ),
    "gemv2T_kernel_val": (
        "_Z17gemv2T_kernel_valIi13cublasDotImplEvT0_",
        "std::enable_if<!(false), void>::type gemv2T_kernel_val<int, cublasDotImpl>(cublasDotImpl)",
    ),
    launched.FILLED: ("Memset (Device)", "Memset (Device)"),
    launched.COPIED: ("Memcpy", "Memcpy DtoD (Device -> Device)"),
    launched.UNKNOWN_FUNCTION: ("_ZN", "## Call CompiledFxGraph abc ##"),
}


@pytest.mark.parametrize("own", SAME)
def test_a_function_has_one_name_mangled_and_demangled(own):
    assert {launched.plain_name(name) for name in SAME[own]} == {own}


def launches(*names, times=10):
    return [[launched.Activity(name, place, place + 1) for place, name in enumerate(names)] for _ in range(times)]


@pytest.mark.parametrize(
    ("timed", "told"),
    [
        (["Memset (Device)"], "1 fill"),
        (["Memcpy DtoD (Device -> Device)"] * 2, "2 copies"),
        (["gdn_v9", "gdn_v9"], "gdn_v9 (2 times)"),
        (["gdn_v8"], "gdn_v8"),
        ([], "nothing"),
        (list("abcdef"), "a, b, c, d and 2 more"),
    ],
)
def test_other_launches_are_told(timed, told):
    found = launched.deviation(launches(*timed), ("gdn_v9",))
    assert found == f"while timed it launches {told}; when checked it launched gdn_v9"


def test_a_launch_with_fewer_or_more_records_than_usual_says_nothing():
    short, joined = launches("a", times=3), launches("a", "b", "Memset (Device)", "a", times=3)
    assert launched.deviation([*launches("a", "b"), *short, *joined, *launches(times=2)], ("a", "b")) == ""


def test_some_of_as_many_launches_are_enough_and_one_is_not():
    usual = launches("a", "b", times=50)
    assert launched.deviation([*usual, *launches("a", "c", times=1)], ("a", "b")) == ""
    told = "while timed it launches c; when checked it launched b; all else is the same"
    assert launched.deviation([*usual, *launches("a", "c", times=2)], ("a", "b")) == told


def test_what_cannot_be_named_is_not_compared():
    assert launched.deviation(launches("## region ##"), ("a",)) == ""
    assert launched.deviation(launches("b"), ("a", launched.UNKNOWN_FUNCTION)) == ""
    assert launched.deviation(launches("b"), ()) == ""
    assert launched.deviation([], ("a",)) == ""


FLUSH_US = 38.2


def simulate(launch_us, random, *, rounds=41, replays=6, sd_us=5.2, drift=0.02):
    """Round times of a launch. A replay's noise is that of 20 launches on an H200; the flush drifts over the run."""
    times = []
    for level in np.linspace(1.0, 1.0 + drift, rounds):
        flush_us = LAUNCHES_PER_GRAPH * FLUSH_US * level
        flushes = flush_us + random.normal(0.0, sd_us, replays)
        cases = flush_us + LAUNCHES_PER_GRAPH * launch_us + random.normal(0.0, sd_us, replays)
        times.append(trimmed_mean(np.array(per_launch_us(cases.tolist(), flushes.tolist())), GPU_TRIM))
    return np.array(times)


def test_without_noise_the_share_is_exact():
    flushes, cases = [LAUNCHES_PER_GRAPH * FLUSH_US] * 6, [LAUNCHES_PER_GRAPH * (FLUSH_US + 2.5)] * 6
    assert per_launch_us(cases, flushes) == pytest.approx([2.5] * 6, abs=1e-4)


def test_the_interval_over_rounds_covers_the_truth_and_the_flushs_drift_cancels():
    random, covered = np.random.default_rng(1), 0
    for _ in range(300):
        interval = t_interval(simulate(0.83, random), 0.95)
        covered += interval.low <= 0.83 <= interval.high
    assert 0.91 <= covered / 300 <= 0.99


def test_a_tenth_of_a_microsecond_is_told_apart_in_a_default_run():
    random = np.random.default_rng(2)
    shorter, longer = (t_interval(simulate(launch_us, random), 0.95) for launch_us in (2.3, 2.5))
    assert shorter.high < longer.low


def test_launches_that_take_no_time_beside_the_flushes_have_none():
    with pytest.raises(RuntimeError, match="no slower than the flushes"):
        per_launch_us([1000.0] * 6, [1001.0] * 6)


def test_a_case_in_place_is_launched_once_at_each_of_few_placements():
    """A second launch there would begin with what the first has left, and be wrong when it is checked."""
    assert launches_per_graph(7, is_in_place=True) == 7
    assert launches_per_graph(7, is_in_place=False) == launches_per_graph(40, is_in_place=True) == LAUNCHES_PER_GRAPH
    assert per_launch_us([7 * (FLUSH_US + 2.5)], [7 * FLUSH_US], 7) == pytest.approx([2.5], abs=1e-4)
