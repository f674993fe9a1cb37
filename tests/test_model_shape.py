import pytest

from gdnbench.errors import ExitCode, ShapeError
from gdnbench.model import Shape, nearest_shape


def test_the_default_is_the_contests_layout_at_batch_1():
    assert Shape().axes() == {"B": 1, "HQ": 4, "HV": 8, "K": 128, "V": 128}
    assert Shape().heads == "qk4_v8"


@pytest.mark.parametrize("axis", ["B", "HQ", "HV", "K", "V"])
@pytest.mark.parametrize("size", [0, -1])
def test_an_axis_has_at_least_one_element(axis, size):
    with pytest.raises(ShapeError, match=f"{axis}={size}") as caught:
        Shape(**{axis: size})
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(("HQ", "HV"), [(4, 6), (8, 4), (3, 8)])
def test_value_heads_share_query_heads_evenly(HQ, HV):
    with pytest.raises(ShapeError, match="multiple"):
        Shape(HQ=HQ, HV=HV)


@pytest.mark.parametrize(("HQ", "HV"), [(1, 1), (4, 4), (1, 7), (16, 32)])
def test_every_multiple_is_allowed(HQ, HV):
    assert Shape(HQ=HQ, HV=HV).heads_pair == (HQ, HV)


def test_equal_shapes_are_one_key_and_smaller_batches_come_first():
    assert {Shape(B=3): "x"}[Shape(B=3)] == "x"
    assert sorted([Shape(B=64), Shape(B=1), Shape(B=8)]) == [Shape(B=1), Shape(B=8), Shape(B=64)]


@pytest.mark.parametrize(
    ("shape", "text"),
    [(Shape(B=8), "B=8 qk4_v8"), (Shape(HQ=16, HV=32), "B=1 qk16_v32"), (Shape(K=64), "B=1 qk4_v8 K=64 V=128")],
)
def test_it_reads_as_it_is_typed(shape, text):
    assert str(shape) == text


def test_a_shape_that_is_known_stands_for_itself_whatever_else_has_as_many_heads():
    """B=1 qk8_v16 has as many heads in the batch as B=2 qk4_v8, and is the smaller."""
    known = [Shape(B=1, HQ=8, HV=16), Shape(B=2)]
    for order in (known, known[::-1]):
        assert nearest_shape(order, Shape(B=2)) == Shape(B=2)
        assert nearest_shape(order, Shape(B=1, HQ=8, HV=16)) == Shape(B=1, HQ=8, HV=16)


def test_of_equally_near_shapes_it_is_one_of_the_same_heads_and_then_the_smaller():
    assert nearest_shape([Shape(B=2, HQ=8, HV=16), Shape(B=4)], Shape(B=8)) == Shape(B=4)
    assert nearest_shape([Shape(B=16), Shape(B=4)], Shape(B=8)) == Shape(B=4)


def test_where_no_shape_is_known_none_is_the_nearest():
    with pytest.raises(ValueError, match="empty"):
        nearest_shape([], Shape())
