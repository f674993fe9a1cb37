"""Which strategy measures what; looking after each process: how often verdicts are false, and how soon it is over."""

import math
from dataclasses import replace

import numpy as np
import pytest
from decode_workloads import decode_at
from run_data import case, collect

from gdnbench.analyse.conclude import overall_ratio
from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.catalog import op_named
from gdnbench.measure.schedule import FORKED_WORKER_START_S, FixedRounds, SequentialSchedule, UntilClear
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.status import Role, Status
from gdnbench.stats.interval import Verdict
from gdnbench.stats.paired import judge_paired
from gdnbench.store.journal import Examined, Sampled
from gdnbench.store.settings import Settings, confidence_of_look

LOOKS, ROUNDS = 4, 8
OWN_SD = op_named("decode").own_sd(launches=1)
SETTINGS = Settings(rounds=ROUNDS, samples=4, looks=LOOKS, confidence=confidence_of_look(0.95, LOOKS), budget_s=1e6)
ONE = {decode_at(B=1): 1.0}
TWO = {decode_at(B=1): 10.0, decode_at(B=8): 7.0}
LABELS = {
    Role.BASELINE: "decode-fla",
    Role.KERNEL: "decode-x",
    Role.FLOOR: "decode-floor-copy",
    Role.CONTROL: "decode-fla",
}


def cases_at(weights):
    return [
        Case(Variant(label, label, Params({})), workload, role)
        for workload in weights
        for role, label in LABELS.items()
    ]


class Machine:
    """Every source of noise that runs on H200s show: launches, own effects of processes, placements, clock, samples."""

    def __init__(self, seed, ratio, weights=ONE, base_us=4.2, launch_sd_us=0.06, own_sd=0.0006, noise=0.0035):
        self.random = np.random.default_rng(seed)
        self.cases = cases_at(weights)
        self.launch_sd_us, self.own_sd, self.noise = launch_sd_us, own_sd, noise
        scale = {Role.BASELINE: 1.0, Role.CONTROL: 1.0, Role.KERNEL: 1 / ratio, Role.FLOOR: 0.9}
        # A stream time is a launch and a kernel; their sum is what has the ratio.
        self.time_us = {
            case.id: scale[case.role] * base_us * (1 + math.log(case.workload.sizes["B"])) for case in self.cases
        }
        self.own_sds = {case.id: OWN_SD for case in self.cases if case.role is not Role.CONTROL}
        self.now_s, self.processes = 0.0, 0
        self.lost = set()

    def clock(self):
        return self.now_s

    def measure(self, segment, collected):
        self.processes += 1
        self.now_s += 3.0
        launch = self.random.normal(0, self.launch_sd_us)
        own = {each.id: self.random.normal(0, self.own_sd) for each in self.cases}
        done = len(collected.complete_rounds(each.id for each in segment.cases))
        for number in range(done + 1, segment.rounds + 1):
            level = self.random.normal(1, 0.003)
            for each in segment.cases:
                kernel = self.time_us[each.id] * (1 + own[each.id] + self.random.normal(0, self.noise / math.sqrt(2)))
                times = launch + kernel * level * self.random.normal(1, 0.0005, 4)
                collected.take(Sampled(number, each.id, tuple(times), process=self.processes))

    def score(self, settings=SETTINGS, weights=ONE):
        """Measures until it is over; gives what was collected."""
        collected, schedule = Collected(), SequentialSchedule(settings, "cuda", weights, self.own_sds, self.clock)
        samples = dict.fromkeys(self.time_us, settings.samples)
        while segment := schedule.next_segment(self.cases, collected, samples, self.time_us):
            self.measure(segment, collected)
            for case_id in self.lost:
                collected.take(Examined(case_id, Status.CRASHED, "SIGSEGV"))
        return collected


def judged(machine, collected, settings=SETTINGS, weights=ONE):
    ratio = overall_ratio(machine.cases, collected, weights, settings, has_launch=True, own_sds=machine.own_sds)
    return judge_paired(ratio, settings.margin, settings.confidence)


def many(ratio, trials, **options):
    """Verdicts, whether intervals hold the truth, and processes, of scores on as many machines."""
    weights = options.get("weights", ONE)
    found = []
    for seed in range(trials):
        machine = Machine(seed, ratio, **options)
        comparison = judged(machine, machine.score(weights=weights), weights=weights)
        found.append(
            (comparison.verdict, comparison.speedup.low <= ratio <= comparison.speedup.high, machine.processes)
        )
    verdicts, held, processes = zip(*found, strict=True)
    return list(verdicts), sum(held) / trials, processes


@pytest.mark.parametrize("ratio", [1.0, 1.005, 1 / 1.005])
def test_a_difference_within_the_margin_is_rarely_claimed(ratio):
    verdicts, held, _ = many(ratio, 200)
    assert sum(each in {Verdict.FASTER, Verdict.SLOWER} for each in verdicts) <= 10  # 5 % of 200
    assert held >= 0.95


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.05, Verdict.FASTER), (1 / 1.05, Verdict.SLOWER), (1.57, Verdict.FASTER)]
)
def test_a_clear_difference_takes_one_process(ratio, verdict):
    verdicts, held, processes = many(ratio, 60)
    assert verdicts == [verdict] * 60
    assert held >= 0.93
    assert np.mean(processes) < 1.1


def test_two_percent_are_found_and_take_no_longer_than_they_must():
    verdicts, held, processes = many(1.02, 60)
    assert verdicts.count(Verdict.FASTER) >= 58
    assert held >= 0.93
    assert np.mean(processes) < 2.5


def test_over_a_suite_the_weighted_mean_is_judged():
    verdicts, held, _ = many(1.02, 40, weights=TWO)
    assert verdicts.count(Verdict.FASTER) >= 38
    assert held >= 0.9


def test_what_lies_on_the_margins_edge_is_given_up_before_the_last_look():
    machines = [Machine(seed, 1.005) for seed in range(40)]
    for machine in machines:
        machine.score()
    assert sum(machine.processes < LOOKS for machine in machines) >= 20


def test_one_process_whose_launch_is_unusual_makes_no_verdict_of_its_own():
    """A launch 0.12 µs longer makes 1 % of a ratio of 1.4 at times of a few microseconds: the interval must hold it."""
    machine = Machine(1, 1.4, launch_sd_us=0.0)
    one = replace(SETTINGS, looks=1)
    collected = machine.score(one)
    shifted = Collected()
    for case_id, rounds in collected.samples.items():
        for sampled in rounds.values():
            times = tuple(time_us + 0.12 for time_us in sampled.times_us)
            shifted.take(Sampled(sampled.round, case_id, times, process=1))
    interval = judged(machine, shifted, one).speedup
    assert interval.low < 1.4 < interval.high


def test_it_looks_as_often_as_it_may_and_no_more():
    machine = Machine(3, 1.0, noise=0.02)
    collected = machine.score(replace(SETTINGS, margin=0.012))
    assert machine.processes <= LOOKS
    assert {len(rounds) for rounds in collected.samples.values()} == {machine.processes * ROUNDS}


def test_it_ends_when_the_time_is_up():
    machine = Machine(4, 1.0, noise=0.03)
    machine.score(replace(SETTINGS, budget_s=3.0 + FORKED_WORKER_START_S, margin=0.01))
    assert machine.processes == 1


@pytest.mark.parametrize("role", [Role.KERNEL, Role.BASELINE])
def test_without_the_kernel_or_the_baseline_there_is_nothing_to_look_at(role):
    machine = Machine(5, 1.0)
    machine.lost = {case.id for case in machine.cases if case.role is role}
    machine.score()
    assert machine.processes == 1


def test_a_control_that_is_told_apart_widens_the_interval():
    machine = Machine(6, 1.02)
    collected = machine.score()
    before = judged(machine, collected).speedup
    again = next(case.id for case in machine.cases if case.role is Role.CONTROL)
    for number, sampled in collected.samples[again].items():
        collected.samples[again][number] = replace(sampled, times_us=tuple(time * 1.04 for time in sampled.times_us))
    after = judged(machine, collected)
    assert after.speedup.high / after.speedup.low > 2 * before.high / before.low - 1
    assert after.verdict is Verdict.UNCLEAR


CASES = (case("a"), case("b"), case("base", Role.BASELINE))
IDS = [each.id for each in CASES]


def next_segment(schedule, collected):
    return schedule.next_segment(CASES, collected, dict.fromkeys(IDS, 100), dict.fromkeys(IDS, 4.0))


def test_a_case_that_is_lost_holds_nothing_up():
    measured = collect(dict.fromkeys(IDS[1:], 4.0), rounds=5)
    assert next_segment(FixedRounds(5, 1), measured).cases == CASES
    measured.take(Examined(IDS[0], Status.CRASHED, "SIGSEGV"))
    assert next_segment(FixedRounds(5, 1), measured) is None
    assert next_segment(FixedRounds(6, 1), measured).cases == CASES[1:]


def test_with_every_case_lost_there_is_nothing_to_measure():
    collected = Collected()
    for case_id in IDS:
        collected.take(Examined(case_id, Status.CRASHED, "SIGSEGV"))
    assert next_segment(FixedRounds(5, 1), collected) is None


def test_processes_share_the_rounds():
    schedule, targets, told = FixedRounds(7, 3), [], []
    for done in (0, 3, 5, 7):
        segment = next_segment(schedule, collect(dict.fromkeys(IDS, 4.0), rounds=done))
        targets.append(segment and segment.rounds)
        told.append(segment and segment.standing)
    assert targets == [3, 5, 7, None]
    assert told == ["process 1 of 3", "process 2 of 3", "process 3 of 3", None]


def test_a_process_that_was_cut_short_is_made_up_for_before_the_next():
    assert next_segment(FixedRounds(6, 3), collect(dict.fromkeys(IDS, 4.0), rounds=3)).rounds == 4


BASELINE, FLOOR = case("base", Role.BASELINE), case("copy", Role.FLOOR)
CLOSE, CLEAR, PYTHON = case("close"), case("clear"), case("python")
GROUPS = ((BASELINE, FLOOR, CLOSE, CLEAR), (BASELINE, FLOOR, PYTHON))
ALL = (BASELINE, FLOOR, CLOSE, CLEAR, PYTHON)


def parts(counts, close=(CLOSE,), lost=()):
    """The rounds and the labels of the part that follows so many rounds of each kernel, None if there is none."""
    collected, calls = Collected(), []

    def find_close(cases):
        calls.append(cases)
        return {each.id for each in close}

    for each, rounds in counts.items():
        collected.samples[each.id] = dict.fromkeys(range(1, rounds + 1))
    for each in lost:
        collected.take(Examined(each.id, Status.CRASHED, "SIGSEGV"))
    segment = UntilClear(42, 3, GROUPS, find_close).next_segment(ALL, collected, {}, {})
    return segment and (segment.rounds, [each.label for each in segment.cases]), len(calls)


def test_the_first_part_is_of_all_and_the_others_of_what_is_close():
    everything = [each.label for each in ALL]
    assert parts({}) == ((14, everything), 0)
    assert parts({BASELINE: 18, FLOOR: 18, CLOSE: 14, CLEAR: 14, PYTHON: 4}) == ((14, everything), 0)
    done = {BASELINE: 18, FLOOR: 18, CLOSE: 14, CLEAR: 14, PYTHON: 14}
    assert parts(done) == ((28, ["base", "copy", "close"]), 1)
    assert parts({**done, CLOSE: 28}) == ((42, ["base", "copy", "close"]), 1)
    assert parts({**done, CLOSE: 42}) == (None, 1)
    assert parts(done, close=()) == (None, 1)
    assert parts(done, lost=(CLOSE,)) == (None, 1)


def test_a_resumed_run_goes_on_with_what_its_part_has_begun_with():
    begun = {BASELINE: 30, FLOOR: 30, CLOSE: 14, CLEAR: 20, PYTHON: 14}
    assert parts(begun, close=(CLOSE, PYTHON)) == ((28, ["base", "copy", "clear", "python"]), 1)


def test_without_kernels_every_process_measures_what_there_is():
    collected = Collected()
    for each in (BASELINE, FLOOR):
        collected.samples[each.id] = dict.fromkeys(range(1, 15))
    segment = UntilClear(42, 3, (), lambda _cases: ()).next_segment((BASELINE, FLOOR), collected, {}, {})
    assert (segment.rounds, segment.cases) == (28, (BASELINE, FLOOR))
