"""Launches found in records of what a GPU did: fills, kernels of several kinds, gdnbench's own, and gaps."""

import random

import pytest

from gdnbench.errors import ProfilerError
from gdnbench.workers.activities import FILL, Activity, launch_times_us, split_cases, split_launches

PREFIX = "gdnbench_"


class Timeline:
    """Writes records one after the other, with a pause between them."""

    def __init__(self):
        self.records, self.now_ns = [], 1_000_000

    def add(self, name, took_ns):
        self.records.append(Activity(name, self.now_ns, self.now_ns + took_ns))
        self.now_ns += took_ns + 700
        return self

    def launch(self, *kernels, dither=0):
        for _ in range(dither):
            self.add(f"{PREFIX}nothing", 500)
        self.add(FILL, 38_000)
        for name, took_ns in kernels:
            self.add(name, took_ns)
        return self.add(f"{PREFIX}end", 500).add(f"{PREFIX}demote_listed", 2_000)


def times_of(records, expected):
    return launch_times_us(split_launches(records, PREFIX), expected)


def test_a_launch_is_the_kernel_between_the_flush_and_the_mark():
    line = Timeline()
    for number in range(5):
        line.launch(("v4", 2_336 + 32 * number), dither=number)
    assert times_of(line.records, 5) == pytest.approx([2.336, 2.368, 2.4, 2.432, 2.464])


def test_kernels_that_overlap_count_once():
    line = Timeline().launch(("a", 4_000))
    start = next(record for record in line.records if record.name == "a").start_ns
    line.records.append(Activity("b", start + 1_000, start + 2_000))
    records = sorted(line.records, key=lambda record: record.start_ns)
    assert times_of(records, 1) == pytest.approx([4.0])


def test_a_kernel_that_fills_memory_itself_is_one_launch():
    line = Timeline()
    for _ in range(4):
        line.launch((FILL, 1_000), ("add", 2_000))
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
    line.records.remove(next(r for r in line.records if r.name == FILL and r.start_ns > 1_010_000))
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
    cases = split_cases(line.records, PREFIX)
    assert [times_of(case, 3) for case in cases] == [pytest.approx([us] * 3) for us in (1.0, 2.0, 3.0)]
