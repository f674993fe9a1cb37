"""Which strategy measures what."""

from run_data import case, collect

from gdnbench.analyse.rounds import Collected
from gdnbench.measure.schedule import FixedRounds
from gdnbench.model.status import Role, Status
from gdnbench.store.journal import Examined

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
