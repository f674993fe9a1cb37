"""Kernels that run Python of their own are timed apart, and no figure of another is of their rounds."""

from dataclasses import replace

import numpy as np
import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from run_data import case

from gdnbench.analyse.analysis import analyse, contradictions
from gdnbench.analyse.rounds import Collected, RoundTimes
from gdnbench.measure import timing as measure
from gdnbench.measure.schedule import FixedRounds
from gdnbench.measure.timing import Target, TimingWorkers, isolated_groups, measure_groups, trusted_first
from gdnbench.model.status import Role, Status
from gdnbench.process.events import ignore
from gdnbench.store.journal import BURN_IN, Examined, Sampled
from gdnbench.store.settings import Settings
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome
from gdnbench.workers.task import Phase, Task

DECODE = CATALOG.ops["decode"]
BASE, FLOOR = case("decode-fla", Role.BASELINE), case("decode-floor-copy", Role.FLOOR)
AGAIN, CUDA = replace(BASE, role=Role.CONTROL), case("decode-v9")
PYTHON = case("decode-compiled")
CASES = (BASE, CUDA, PYTHON, FLOOR, AGAIN)
TIMES_US = {BASE.id: 5.0, AGAIN.id: 5.0, CUDA.id: 4.2, PYTHON.id: 6.0, FLOOR.id: 4.0}


def test_what_is_compiled_is_timed_without_python_and_both_beside_the_baseline_and_the_floor():
    compiled, python = isolated_groups(CASES, CATALOG.entries)
    assert compiled == (BASE, CUDA, FLOOR, AGAIN)
    assert python == (BASE, PYTHON, FLOOR, AGAIN)


@pytest.mark.parametrize(
    "kernels", [(CUDA,), (PYTHON,), (CUDA, case("decode-triton")), (case("decode-reference"), CUDA)]
)
def test_kernels_of_one_kind_and_baselines_of_the_op_stay_together(kernels):
    cases = (BASE, *kernels, FLOOR, AGAIN)
    assert isolated_groups(cases, CATALOG.entries) == (cases,)


def test_what_runs_python_is_verified_after_the_others():
    assert trusted_first(CASES, CATALOG.entries) == ((BASE, CUDA, FLOOR, AGAIN), (PYTHON,))


class Workers:
    """Each process adds a launch of its own; what the Python kernel does to those beside it, `cheat` says."""

    def __init__(self, cheat=lambda us: us, loses=None):
        self.cheat, self.loses, self.tasks = cheat, loses, []
        self.random = np.random.default_rng(1)

    def __call__(self, _module, task, folder, name, _environment, on_event, **_):
        (folder / f"{name}.json").touch()  # by which the next process gets a number of its own
        self.tasks.append(task)
        launch_us = self.random.normal(0, 0.05)
        is_python = any(each.id == PYTHON.id for each in task.cases)
        for position, ids in enumerate(task.order):
            number = task.round_number(position)
            for id_ in ids:
                if self.loses and is_python and number != BURN_IN:
                    on_event(Examined(self.loses, Status.WRONG_WHEN_TIMED, "it launches twice"))
                    return WorkerOutcome(WorkerEnd.FINISHED)
                us = launch_us + TIMES_US[id_] * self.random.normal(1, 0.002)
                on_event(Sampled(number, id_, (self.cheat(us) if is_python else us,) * 8))
        return WorkerOutcome(WorkerEnd.FINISHED)


@pytest.fixture
def timed(monkeypatch, tmp_path):
    def run(workers, rounds=12, processes=3, cases=CASES):
        monkeypatch.setattr(measure, "supervise", workers)
        collected = Collected()
        task = Task(
            Phase.MEASURE, "cuda", (), "decode", cases, seed=1, step_limit_s=9.0, samples=dict.fromkeys(TIMES_US, 8)
        )
        groups = isolated_groups(cases, CATALOG.entries)
        schedule = FixedRounds(rounds, processes, groups)
        measuring = TimingWorkers(tmp_path, {}, ignore, lambda _event: None)
        while segment := schedule.next_segment(cases, collected, task.samples, {}):
            measure_groups(measuring, task, groups, [Target(segment.cases, segment.rounds, collected)])
        return collected

    return run


def rows_of(collected, cases=CASES, launches=1):
    checked = {each.id: Examined(each.id, Status.OK, launches=launches) for each in cases}
    found = analyse(
        DECODE, cases, checked, {}, collected, Settings(rounds=12, samples=8, processes=3), timer="nvbench", run_id="r",
        copying={"decode-floor-copy"}, apart={PYTHON.id} & {each.id for each in cases},
    )  # fmt: skip
    return {row.case.id: row for row in found.measurements}


def test_processes_take_turns_and_every_round_is_of_one(timed):
    workers = Workers()
    collected = timed(workers)
    assert [PYTHON in task.cases for task in workers.tasks] == [False, True] * 3
    own, others = (set(collected.samples[each.id]) for each in (CUDA, PYTHON))
    assert (len(own), len(others), own & others) == (12, 12, set())
    assert set(collected.samples[BASE.id]) == own | others


def test_figures_of_the_others_are_those_of_a_run_without_the_python_kernel(timed):
    beside = rows_of(timed(Workers()))
    own = [each for each in CASES if each is not PYTHON]
    alone = rows_of(timed(Workers(), cases=tuple(own)), tuple(own))
    for each in own:
        # The noise is drawn one after the other, so that runs differ by that; rounds and processes are as many.
        one, other = beside[each.id].timing, alone[each.id].timing
        assert (one.rounds, one.samples) == (other.rounds, other.samples)
        assert one.time_us == pytest.approx(other.time_us, rel=0.03)
    assert beside[PYTHON.id].versus.speedup == pytest.approx(5 / 6, rel=0.005)
    assert beside[PYTHON.id].versus.verdict == "slower"


@pytest.mark.parametrize("cheat", [lambda us: us / 2, lambda us: 2 * us, lambda us: us - 0.5])
def test_what_changes_all_times_of_its_process_changes_no_other_figure_and_has_no_verdict(timed, cheat):
    honest, cheated = rows_of(timed(Workers())), rows_of(timed(Workers(cheat)))
    for each in (BASE, CUDA, FLOOR, AGAIN):
        assert repr(cheated[each.id]) == repr(honest[each.id])
    assert cheated[PYTHON.id].versus is None
    assert "something there changes times" in cheated[PYTHON.id].warnings[0]
    assert honest[PYTHON.id].versus is not None


@pytest.mark.parametrize(("launches", "compared"), [(1, False), (25, True)])
def test_many_launches_may_take_longer_in_other_processes(timed, monkeypatch, launches, compared):
    monkeypatch.setattr(f"{__name__}.TIMES_US", TIMES_US | {BASE.id: 70.0, AGAIN.id: 70.0})
    rows = rows_of(timed(Workers(lambda us: us * (1.05 if us > 50 else 1))), launches=launches)
    assert bool(rows[PYTHON.id].versus) is compared


@pytest.mark.parametrize("lost", [BASE.id, FLOOR.id])
def test_what_is_lost_beside_it_costs_it_and_not_what_was_lost(timed, lost):
    collected = timed(Workers(loses=lost))
    assert set(collected.lost) == {PYTHON.id}
    assert collected.lost[PYTHON.id].status is Status.TAMPERS
    assert lost in collected.lost[PYTHON.id].reason
    assert len(collected.samples[CUDA.id]) == 12
    assert rows_of(collected)[CUDA.id].versus.verdict == "faster"


@pytest.mark.parametrize(
    ("launches", "kernel_us", "told"), [(1, 2.7, False), (1, 5.5, True), (25, 6.4, False), (25, 10.4, True)]
)
def test_a_time_with_its_launch_below_the_kernels_own_is_told(timed, launches, kernel_us, told):
    row = replace(rows_of(timed(Workers()))[CUDA.id], launches=launches)
    timing = replace(row.timing, timer="cupti", time_us=kernel_us, time_lo_us=kernel_us - 0.1)
    assert bool(contradictions([row], [replace(row, clock="cupti", timing=timing)])) is told


def test_workloads_of_one_process_share_rounds_and_others_do_not_lend_them_their_process():
    """A worker that ended between two blocks of workloads leaves rounds of one number to two processes."""
    other = case("decode-v9", workload=decode_at(B=8))
    collected = Collected()
    for number in (1, 2, 3, 4):
        collected.take(Sampled(number, CUDA.id, (4.0,), process=1 if number < 3 else 2))
        collected.take(Sampled(number, other.id, (8.0,), process=3 if number < 3 else 4))
    rounds = RoundTimes(collected, 0.95)
    assert rounds.process([CUDA.id]).tolist() == [1, 1, 2, 2]
    assert rounds.process([other.id]).tolist() == [3, 3, 4, 4]


def cut(processes, last):
    """Two rounds of each process, the last of which is stopped behind so many cases of its second round."""
    groups = isolated_groups(CASES, CATALOG.entries)
    collected, number, random = Collected(), 0, np.random.default_rng(1)
    for process in range(processes):
        for second in (False, True):
            number += 1
            stopped = second and process == processes - 1
            for each in groups[process % 2][: last if stopped else None]:
                us = TIMES_US[each.id] * random.normal(1, 0.002)
                collected.take(Sampled(number, each.id, (us,) * 8, process=process + 1))
    return collected


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 4])
def test_a_run_that_is_stopped_within_a_round_is_told_from_what_there_is(processes, last):
    rows = rows_of(cut(processes, last))
    assert rows[CUDA.id].timing.rounds == (processes + 1) // 2 * 2 - (processes % 2 == 1 and last < 2)
    assert rows[BASE.id].timing.rounds == (processes + 1) // 2 * 2 - (processes % 2 == 1 and last < 1)
    if processes > 1:
        assert rows[PYTHON.id].timing.rounds == processes // 2 * 2 - (processes % 2 == 0 and last < 2)


@pytest.mark.parametrize("there", [{PYTHON.id}, {PYTHON.id, FLOOR.id}, {PYTHON.id, BASE.id}])
def test_a_kernel_apart_that_has_no_baseline_or_floor_beside_it_yet_has_a_time_alone(there):
    collected = cut(1, 4)
    for each in CASES:
        if each.id in there:
            collected.take(Sampled(3, each.id, (TIMES_US[each.id],) * 8, process=2))
    rows = rows_of(collected)
    assert rows[PYTHON.id].timing.time_us == pytest.approx(6.0)
    assert rows[CUDA.id].versus.verdict == rows_of(cut(1, 4))[CUDA.id].versus.verdict


def test_cases_of_one_process_are_never_split_however_a_round_was_cut():
    """As on a CPU, where all are timed together: the baseline may have a round that a slow kernel has not."""
    collected = Collected()
    for number, ids in enumerate([(BASE.id, PYTHON.id, AGAIN.id), (AGAIN.id, BASE.id)], start=1):
        for id_ in ids:
            collected.take(Sampled(number, id_, (TIMES_US[id_],) * 8, process=1))
    rows = rows_of(collected, (BASE, PYTHON, AGAIN))
    assert [rows[each].timing.rounds for each in (BASE.id, PYTHON.id, AGAIN.id)] == [2, 1, 2]
    assert rows[PYTHON.id].versus is not None
