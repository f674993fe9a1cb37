"""A robust standard deviation: right on average for normal values, unmoved by a few that are far off."""

import numpy as np
import pytest

from gdnbench.stats.scale import EFFICIENCY, robust_scale

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("count", [8, 9, 12, 41, 75])
def test_it_is_right_on_average_for_normal_values(count):
    assert np.mean([robust_scale(RNG.normal(0, 2.0, count)) for _ in range(2000)]) == pytest.approx(2.0, rel=0.03)


def test_its_efficiency_is_as_told():
    values = RNG.normal(0, 1.0, (2000, 75))
    robust, plain = np.var([robust_scale(each) for each in values]), np.var(values.std(axis=1, ddof=1))
    assert plain / robust == pytest.approx(EFFICIENCY, abs=0.08)


def test_a_few_far_off_change_little_where_a_standard_deviation_explodes():
    values = np.append(RNG.normal(0, 1.0, 20), [50.0, -80.0])
    assert robust_scale(values) < 2.0
    assert np.std(values, ddof=1) > 10


def test_equal_values_have_none_and_impossible_ones_are_refused():
    assert robust_scale(np.zeros(9)) == 0
    for bad in (np.array([1.0]), np.array([1.0, np.nan, 2.0])):
        with pytest.raises(ValueError, match="two values"):
            robust_scale(bad)
