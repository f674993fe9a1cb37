import copy
import pickle

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.errors import DeclarationError, ExitCode, GdnbenchError, ShapeError
from gdnbench.model.workload import nearest_workload, parse_list, short_list, write_list
from gdnbench.model.workload_spec import Alias, Axis, AxisList, WorkloadSpec

DECODE = CATALOG.ops["decode"]
RAGGED = WorkloadSpec(
    axes=(Axis("H", default=4, compile_time=True),), lists=(AxisList("lengths", default=(6, 134)),), x="lengths"
)
GEMM = WorkloadSpec(axes=tuple(Axis(name, default=64) for name in ("M", "N", "K")), size=("M", "N"))


def test_a_workload_of_fewer_axes_has_the_defaults_of_those_that_came_since():
    axes = (Axis("M", default=64), Axis("N", default=32))
    before, now = WorkloadSpec(axes=axes[:1]), WorkloadSpec(axes=axes)
    small = before.workload({"M": 8})
    assert now.completed(small) == now.workload({"M": 8, "N": 32})
    assert before.completed(now.default) == now.default
    assert now.completed(now.default) == now.default


def test_lists_of_one_sum_are_in_different_lines_and_lists_of_equal_sizes_in_one():
    lines = [RAGGED.workload({"lengths": sizes}).line for sizes in ((8,), (64,), (4, 4), (9, 9), (2, 6), (6, 2))]
    assert lines == [f"H=4 lengths={form}" for form in ("N", "N", "2xN", "2xN", "2+6", "6+2")]
    assert DECODE.workload({"B": 8}).line == DECODE.default.line == "qk4_v8"


@pytest.mark.parametrize("axis", ["B", "HQ", "HV", "K", "V"])
@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_an_axis_has_at_least_one_element_and_fits_32_bits(axis, size):
    with pytest.raises(ShapeError, match=f"{axis}={size}") as caught:
        DECODE.workload({axis: size})
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_equal_workloads_are_one_key_and_smaller_ones_come_first():
    assert {decode_at(B=3): "x"}[DECODE.workload({"B": 3})] == "x"
    assert sorted([decode_at(B=64), decode_at(B=1), decode_at(B=8)]) == [decode_at(B=size) for size in (1, 8, 64)]
    assert RAGGED.workload({"lengths": (8,)}) != RAGGED.workload({"lengths": (8, 8)})


def test_a_workload_survives_pickling_and_copying():
    workload = RAGGED.workload({"lengths": (8, 8)})
    assert pickle.loads(pickle.dumps(workload)) == copy.deepcopy(workload) == workload
    assert copy.copy(workload).lengths == (8, 8)


@pytest.mark.parametrize(
    ("sizes", "label", "key", "slug", "options"),
    [
        ({"B": 8}, "B=8 qk4_v8", "B8_HQ4_HV8_K128_V128", "B8-qk4_v8", "--shape B=8"),
        (
            {"HQ": 16, "HV": 32},
            "B=1 qk16_v32",
            "B1_HQ16_HV32_K128_V128",
            "B1-qk16_v32",
            "--shape B=1 --shape heads=qk16_v32",
        ),
        ({"K": 64}, "B=1 qk4_v8 K=64 V=128", "B1_HQ4_HV8_K64_V128", "B1-qk4_v8-K64-V128", "--shape B=1 --shape K=64"),
    ],
)
def test_its_names(sizes, label, key, slug, options):
    workload = decode_at(**sizes)
    assert (str(workload), workload.key, workload.slug) == (label, key, slug)
    assert workload.options == options.split()
    assert workload.spec.read(label) == workload.spec.read(slug) == workload


def test_a_list_is_told_in_full_where_that_is_short():
    workload = RAGGED.workload({"lengths": [1024] * 8 + [6]})
    assert str(workload) == "H=4 lengths=8x1024+6"
    assert workload.cells == {"H": 4, "lengths": "8x1024+6"}
    assert (workload.x, workload.series) == (8 * 1024 + 6, "H=4")
    assert RAGGED.read(str(workload)) == workload
    assert RAGGED.from_cells({"H": "4", "lengths": "8x1024+6", "time_us": "3"}) == workload


def test_a_long_list_has_a_short_name_of_its_own():
    one, other = (RAGGED.workload({"lengths": range(1, last)}) for last in (60, 61))
    assert len(str(one)) < 60
    assert str(one).startswith("H=4 lengths=59n-1770-")
    assert one.key != other.key
    assert RAGGED.from_cells({name: str(cell) for name, cell in one.cells.items()}) == one


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=30))
def test_lists_are_read_as_they_are_written(sizes):
    assert parse_list(write_list(sizes)) == tuple(sizes)
    assert len(short_list(sizes)) <= 60


def test_a_workload_that_is_known_stands_for_itself_whatever_else_is_as_large():
    """B=1 qk8_v16 has as many heads in the batch as B=2 qk4_v8, and is the smaller."""
    known = [decode_at(B=1, HQ=8, HV=16), decode_at(B=2)]
    for order in (known, known[::-1]):
        assert nearest_workload(order, decode_at(B=2)) == decode_at(B=2)
        assert nearest_workload(order, decode_at(B=1, HQ=8, HV=16)) == decode_at(B=1, HQ=8, HV=16)


PREFILL = CATALOG.ops["prefill"]


def prefill_at(words):
    return PREFILL.workload({"lengths": parse_list(words)})


@pytest.mark.parametrize("profile", ["", "never"])
@pytest.mark.parametrize("wanted", ["8192", "8x1024", "2x4096", "1024", "65536"])
def test_a_list_that_is_known_stands_for_itself_whatever_list_has_as_many_tokens(wanted, profile):
    known = [prefill_at(words) for words in ("1024", "8192", "8x1024", "2x4096", "65536", "32+8160")]
    for order in (known, known[::-1]):
        assert nearest_workload(order, prefill_at(wanted).at(profile)) == prefill_at(wanted)


@pytest.mark.parametrize(("wanted", "nearest"), [("2x4096", "8192"), ("6x1366", "8x1024"), ("8191", "8192")])
def test_of_lists_of_as_many_tokens_it_is_the_one_of_the_most_alike_number_of_sequences(wanted, nearest):
    known = [prefill_at("8192"), prefill_at("8x1024")]
    assert nearest_workload(known, prefill_at(wanted)) == prefill_at(nearest)


def test_the_size_is_a_product_and_a_list_counts_by_its_sum():
    assert decode_at(B=8).size == 64
    assert GEMM.workload({"M": 3, "N": 5, "K": 7}).size == 15
    assert RAGGED.workload({"lengths": (6, 4)}).size == 4 * 10


@pytest.mark.parametrize(
    "declare",
    [
        WorkloadSpec,
        lambda: WorkloadSpec(axes=(Axis("B", 1), Axis("B", 2))),
        lambda: WorkloadSpec(axes=(Axis("B", 1),), x="M"),
        lambda: WorkloadSpec(axes=(Axis("B", 1),), size=("M",)),
        lambda: WorkloadSpec(axes=(Axis("B", 1),), aliases=(Alias("heads", "qk{HQ}"),)),
        lambda: WorkloadSpec(axes=(Axis("B", 1),), aliases=(Alias("batch", "b{B}"),), x="B"),
        lambda: Axis("B", 0),
        lambda: Axis("B C", 1),
        lambda: AxisList("lengths", ()),
        lambda: AxisList("lengths", (-1,)),
        lambda: Alias("heads", "qk"),
        lambda: Alias("heads", "qk{HQ}", known=("v8",)),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(declare):
    with pytest.raises(DeclarationError):
        declare()


@given(st.integers(-5, 2**32), st.sampled_from(["B", "HQ", "HV", "K", "V"]))
def test_no_size_ends_in_anything_but_an_error_of_ours(size, axis):
    try:
        assert DECODE.workload({axis: size}).axes[axis] == size
    except GdnbenchError as error:
        assert error.hint
