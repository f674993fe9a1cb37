import pytest

from gdnbench.wording import plural


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
