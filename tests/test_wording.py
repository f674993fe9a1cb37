import pytest

from gdnbench.wording import plural, spans_text


@pytest.mark.parametrize(
    ("said", "as_"),
    [
        ((0, "warp"), "0 warps"),
        ((1, "warp"), "1 warp"),
        ((8, "warp"), "8 warps"),
        ((1, "branch", "branches"), "1 branch"),
        ((2, "branch", "branches"), "2 branches"),
    ],
)
def test_a_count_is_said_as_one_says_it(said, as_):
    assert plural(*said) == as_


@pytest.mark.parametrize(("numbers", "as_"), [((), ""), ((3,), "3"), ((0, 1, 2, 7), "0-2,7"), ((4, 6, 7), "4,6-7")])
def test_neighbours_are_said_as_a_span(numbers, as_):
    assert spans_text(numbers) == as_
