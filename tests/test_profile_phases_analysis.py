"""Stamps of known clocks give known times by phase, and stamps that tell nothing are an error."""

from dataclasses import replace

import numpy as np
import pytest
from stamps_data import MHZ, STEP_NS, about, records, specialised, stamps

from gdnbench.errors import ProfilerError
from gdnbench.profile.breakdown import BETWEEN, WHOLE, Breakdown, analyse
from gdnbench.profile.stamps import HEAD, SM, UNWRITTEN, Stamps
from gdnbench.profile.stamps import TOTAL as TOTAL_CYCLES


def _rows(profile):
    return {row.name: row for row in profile.breakdown.rows()}


def test_cycles_become_microseconds_by_the_clock_of_the_launches():
    profile = analyse(stamps(skew_ns=10))
    assert profile.timeline.sm_mhz == pytest.approx(MHZ, rel=0.002)
    load = _rows(profile)["load"]
    assert load.minimum == pytest.approx(1.0, rel=0.003)
    assert load.maximum == pytest.approx(1 + 63 * 0.02, rel=0.003)
    assert load.average == pytest.approx(1 + 63 * 0.02 / 2, rel=0.003)
    assert _rows(profile)["update"].average == pytest.approx(0.5, rel=0.003)


def test_the_span_of_a_launch_and_how_far_apart_its_warps_begin():
    line = analyse(stamps(skew_ns=20)).timeline
    assert line.skew_us == pytest.approx(63 * 0.020, abs=0.033)
    assert line.span_us == pytest.approx(63 * 0.020 + (1500 + 63 * 30 + 1050) / MHZ, abs=0.033)
    assert line.step_ns == STEP_NS


def test_a_timer_that_wraps_during_the_launches_changes_nothing():
    plain, wrapping = (analyse(stamps(skew_ns=20, origin_ns=origin)) for origin in (2**20, 2**32 - 2_500_000))
    assert wrapping.timeline.sm_mhz == pytest.approx(plain.timeline.sm_mhz, rel=0.003)
    assert wrapping.timeline.span_us == pytest.approx(plain.timeline.span_us, abs=0.033)


def test_a_phase_that_some_warps_skip_is_averaged_over_those_that_pass_it():
    cycles = np.full((20, 8, 3), 300)
    cycles[:, ::2, 1] = 0
    profile = analyse(Stamps(about(), records(cycles, skew_ns=3), np.array([4.0]), np.array([4.2])))
    row = _rows(profile)["update"]
    assert row.minimum == pytest.approx(0.2, rel=0.02)
    assert row.share == pytest.approx(4 / (2 * 8 + 4))
    assert profile.unpassed == ()


def test_marks_that_have_changed_places_leave_the_sum_of_both_phases_right():
    """Of a phase whose end is stamped before its beginning, the sum of differences is negative, and wraps."""
    cycles = np.full((20, 8, 3), 300)
    cycles[:, 3] = 450, 0, 0
    made = records(cycles)
    made[:, 3, HEAD + 1] = 2**32 - 150
    profile = analyse(Stamps(about(), made, np.array([4.0]), np.array([4.2])))
    rows = _rows(profile)
    assert rows["update"].minimum == pytest.approx(-0.1, rel=0.02)
    assert rows["load"].average * 8 + rows["update"].average * 8 == pytest.approx(0.2 * 2 * 7 + 0.2, rel=0.02)


def test_a_phase_that_no_warp_passes_is_told_and_has_no_row():
    cycles = np.full((20, 8, 3), 300)
    cycles[:, :, 2] = 0
    profile = analyse(Stamps(about(), records(cycles), np.array([4.0]), np.array([4.2])))
    assert profile.unpassed == ("store",)
    assert "store" not in _rows(profile)


def test_warps_without_a_record_are_counted_and_left_out():
    made = stamps(warps=16)
    silent = made.records.copy()
    silent[3, 5] = UNWRITTEN  # once is enough
    silent[:, 9] = UNWRITTEN
    profile = analyse(replace(made, records=silent))
    assert (profile.silent, profile.breakdown.warps) == (2, 14)
    assert profile.timeline.sm_mhz == pytest.approx(MHZ, rel=0.005)


def test_warps_that_have_no_marks_in_any_block_are_told_by_their_numbers():
    """Of blocks of four warps the last one has no marks; another warp is silent in one block."""
    made = stamps(warps=16)
    silent = made.records.copy()
    silent[:, 3::4] = UNWRITTEN
    silent[:, 5] = UNWRITTEN
    profile = analyse(replace(made, records=silent, about=about(block_warps=4)))
    assert (profile.unmarked, profile.silent, profile.breakdown.warps) == ((3,), 1, 11)
    profile = analyse(replace(made, records=silent, about=about(block_warps=0)))
    assert (profile.unmarked, profile.silent) == ((), 5)


def test_no_record_at_all_is_an_error_that_names_the_cause():
    made = stamps(launches=2, warps=4)
    with pytest.raises(ProfilerError, match="no warp of decode-v4") as caught:
        analyse(replace(made, records=np.full_like(made.records, UNWRITTEN)))
    assert "GDNBENCH_PHASES_BEGIN" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "value", "told"), [(slice(SM), 4096, "did not move"), (TOTAL_CYCLES, 0, "no warp counted a cycle")]
)
def test_a_timer_or_a_clock_that_stands_still_is_an_error(words, value, told):
    made = stamps(launches=2, warps=4)
    stopped = made.records.copy()
    stopped[:, :, words] = value
    with pytest.raises(ProfilerError, match=told):
        analyse(replace(made, records=stopped))


def test_what_stamping_costs_is_the_ratio_of_medians():
    cost = analyse(stamps()).overhead
    assert cost.plain_us == pytest.approx(4.11, abs=0.03)
    assert cost.share == pytest.approx(cost.stamped_us / cost.plain_us - 1)
    assert cost.share == pytest.approx(0.1, abs=0.02)


def test_warps_that_pass_the_same_phases_are_a_role():
    profile = analyse(specialised())
    consumers, producers = profile.roles
    assert (producers.places, producers.breakdown.warps) == ((0,), 5)
    assert (consumers.places, consumers.breakdown.warps) == ((1, 2, 3), 15)
    assert list(producers.breakdown.phases) == ["load"]
    update = {row.name: row for row in consumers.breakdown.rows()}["update"]
    assert (update.average, update.minimum) == (pytest.approx(2.0, rel=0.01), pytest.approx(1.0, rel=0.01))
    assert update.share == pytest.approx(2.0 / (2.0 + 0.2 * 12 / 15), rel=0.01)
    assert profile.breakdown.warps == 20


def test_a_warp_that_has_less_to_do_is_of_the_role_whose_phases_it_passes_in_part():
    [only] = analyse(stamps()).roles
    assert only.breakdown.warps == 64
    cycles = np.full((20, 8, 3), 300)
    cycles[:, 5, 2] = 0
    [one] = analyse(Stamps(about(block_warps=8), records(cycles), np.array([4.0]), np.array([4.2]))).roles
    assert (one.places, one.breakdown.warps) == (tuple(range(8)), 8)


def test_roles_that_places_in_a_block_do_not_tell_apart_have_none():
    made = specialised()
    shuffled = made.records.copy()
    shuffled[:, [0, 1]] = shuffled[:, [1, 0]]
    assert [role.places for role in analyse(replace(made, records=shuffled)).roles] == [(), ()]
    unknown = analyse(replace(made, about=about(block_warps=0)))
    assert [(role.places, role.breakdown.warps) for role in unknown.roles] == [((), 15), ((), 5)]


def test_a_block_that_passes_no_mark_takes_no_numbers_away():
    cycles = np.full((20, 24, 3), 300)
    cycles[:, 16:] = 0
    roles = analyse(Stamps(about(block_warps=8), records(cycles), np.array([4.0]), np.array([4.2]))).roles
    assert [(role.places, role.breakdown.warps) for role in roles] == [(tuple(range(8)), 16), ((), 8)]
    assert [row.share for row in roles[1].breakdown.rows()] == [0, 0]


def test_a_warp_that_passes_no_mark_is_of_no_other_role():
    cycles = np.full((20, 8, 3), 300)
    cycles[:, 7] = 0
    made = Stamps(about(block_warps=8), records(cycles, after=150), np.array([4.0]), np.array([4.2]))
    assert [role.places for role in analyse(made).roles] == [tuple(range(7)), (7,)]


def rows(phases, totals, **more):
    arrays = {name: np.array(values, dtype=float) for name, values in phases.items()}
    return {row.name: row for row in Breakdown(arrays, np.array(totals, dtype=float), **more).rows()}


def test_the_numbers_of_a_phase_are_those_of_all_warps_of_all_launches():
    found = rows({"load": [[1, 2], [3, 6]], "store": [[1, 1], [1, 1]]}, [[4, 4], [4, 8]])
    load = found["load"]
    assert (load.average, load.minimum, load.maximum) == (3, 1, 6)
    assert load.share == pytest.approx(12 / 20)
    assert load.p95 == pytest.approx(3 + 0.85 * 3)  # sorted 1, 2, 3, 6; place 0.95 * 3 lies 0.85 from 3 to 6
    assert load.spread == pytest.approx((0.9 * 1 + 0.9 * 3) / 2)  # two warps: 90 % of their distance, in each launch


def test_what_no_phase_covers_stands_between_and_the_shares_add_to_one():
    found = rows({"load": [[1, 2]], "store": [[2, 1]]}, [[4, 5]])
    assert found[BETWEEN].average == pytest.approx(1.5)
    assert sum(row.share for name, row in found.items() if name != WHOLE) == pytest.approx(1)
    assert found[WHOLE].share == 1


def test_a_warp_without_a_phase_counts_in_no_average_and_in_every_share():
    found = rows({"load": [[2, np.nan]], "compute": [[2, 4]]}, [[4, 4]])
    assert found["load"].average == 2
    assert found["load"].share == pytest.approx(0.25)
    assert found[BETWEEN].average == 0


@pytest.mark.filterwarnings("error")
def test_a_launch_without_a_phase_counts_in_no_spread():
    assert rows({"load": [[1, 3], [np.nan, np.nan]]}, [[4, 4], [4, 4]])["load"].spread == pytest.approx(1.8)
    assert rows({"load": [[1.0], [np.nan]]}, [[4.0], [4.0]])["load"].spread == 0


def test_a_nested_phase_is_not_taken_off_twice():
    found = rows({"outer": [[4.0]], "inner": [[3.0]]}, [[5.0]], nested=frozenset({"inner"}))
    assert found[BETWEEN].average == 1
    assert found["inner"].share == pytest.approx(0.6)
