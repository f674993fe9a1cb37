"""What is said of the phases inside a kernel, against arithmetic by hand."""

import numpy as np
import pytest

from gdnbench.profile.breakdown import BETWEEN, WHOLE, Breakdown


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
