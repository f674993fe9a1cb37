"""Which strategy measures what."""

import pytest
from run_data import case, collect

from gdnbench.bench.events import Examined
from gdnbench.bench.measuring import Collected
from gdnbench.bench.race import Race
from gdnbench.bench.request import Settings
from gdnbench.bench.schedule import FixedRounds
from gdnbench.bench.session import choose_schedule
from gdnbench.model import Role, Status

CASES = (case("a"), case("b"), case("base", Role.BASELINE))
IDS = [each.id for each in CASES]


def next_leg(schedule, collected):
    return schedule.next_leg(CASES, collected, dict.fromkeys(IDS, 100), dict.fromkeys(IDS, 4.0))


def test_a_run_measures_every_case_in_one_leg():
    leg = next_leg(FixedRounds(5), Collected())
    assert (leg.phase, leg.cases, leg.rounds, leg.standing) == ("measure", CASES, 5, "")


def test_it_ends_when_every_round_is_whole():
    measured = collect(dict.fromkeys(IDS, 4.0), rounds=5)
    assert next_leg(FixedRounds(5), measured) is None
    assert next_leg(FixedRounds(6), measured).rounds == 6


def test_a_case_that_is_lost_holds_nothing_up():
    measured = collect(dict.fromkeys(IDS[1:], 4.0), rounds=5)
    assert next_leg(FixedRounds(5), measured).cases == CASES
    measured.take(Examined(IDS[0], Status.CRASHED, "SIGSEGV"))
    assert next_leg(FixedRounds(5), measured) is None
    assert next_leg(FixedRounds(6), measured).cases == CASES[1:]


def test_with_every_case_lost_there_is_nothing_to_measure():
    collected = Collected()
    for case_id in IDS:
        collected.take(Examined(case_id, Status.CRASHED, "SIGSEGV"))
    assert next_leg(FixedRounds(5), collected) is None


@pytest.mark.parametrize(("budget_s", "kind"), [(None, FixedRounds), (60.0, Race)])
def test_a_budget_makes_it_a_race(budget_s, kind):
    assert isinstance(choose_schedule(Settings(budget_s=budget_s), "cpu", ["decode-x"]), kind)
