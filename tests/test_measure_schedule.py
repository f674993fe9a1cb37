"""Which strategy measures what."""

from run_data import case, collect

from gdnbench.analyse.rounds import Collected
from gdnbench.measure.schedule import FixedRounds, UntilClear
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
