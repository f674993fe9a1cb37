"""What `compare` knows of a workload's axes: keys, case ids, sizes that a file leaves out."""

import pytest
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.analyse.figure import (
    WorkloadKeys,
    assumed_sizes,
    differing_parts,
    read_axes,
    read_case_id,
    workload_value,
)
from gdnbench.catalog.catalog import op_named
from gdnbench.errors import ShapeError
from gdnbench.model.case import Case, Variant

AXES = op_named("decode").workloads
KEYS = WorkloadKeys((AXES,))
WORKLOADS = st.builds(
    lambda batch, heads, group, key, value: decode_at(B=batch, HQ=heads, HV=heads * group, K=key, V=value),
    *(st.integers(1, 512) for _ in range(5)),
)
LABELS = st.text(min_size=1, max_size=20)


@given(WORKLOADS)
def test_sizes_come_back_as_they_were_written(workload):
    assert read_axes({axis: str(size) for axis, size in workload.cells.items()}, AXES) == workload
    assert read_axes({axis: workload_value(workload, axis) for axis in AXES.names}, AXES) == workload


@given(LABELS, WORKLOADS)
def test_a_case_id_comes_apart_as_it_was_put_together(label, workload):
    case = Case(Variant(label, label), workload)
    assert read_case_id(case.id, AXES) == (label, workload)


@pytest.mark.parametrize("text", ["", "decode-v4", "decode-v4/B1", "/B1_HQ4_HV8_K128_V128", "x/B1_HQ4_HV8_K128_V128 "])
def test_other_text_is_no_case_id(text):
    assert read_case_id(text, AXES) is None


def test_an_axis_that_is_left_out_has_its_default_size():
    assert read_axes({"B": "8", "kernel": "x"}, AXES) == decode_at(B=8)
    assert assumed_sizes(["B", "HQ", "HV"], AXES) == "K=128, V=128"
    assert assumed_sizes(AXES.names, AXES) == ""


@pytest.mark.parametrize(("sizes", "error"), [({"B": "eight"}, ShapeError), ({"B": "0"}, ShapeError)])
def test_a_size_that_is_none_is_refused(sizes, error):
    with pytest.raises(error):
        read_axes(sizes, AXES)


@given(WORKLOADS, WORKLOADS)
def test_two_workloads_differ_in_some_part_unless_they_are_one(one, other):
    left, right = differing_parts(one, other)
    assert (left == right) is (one == other)
    assert len(left.split()) == len(right.split())
    assert differing_parts(other, one) == (right, left)


@given(WORKLOADS, WORKLOADS)
def test_the_parts_of_a_workload_say_as_much_as_the_workload(one, other):
    alike = all(workload_value(one, key) == workload_value(other, key) for key in KEYS.parts)
    assert alike is (one == other)


def test_what_a_key_fixes_is_a_key_too():
    for key in KEYS.names:
        assert key in KEYS.fixed_by(key)
        assert set(KEYS.fixed_by(key)) <= set(KEYS.names)
    assert KEYS.fixed_by("label") == ()
    assert KEYS.has_one_of(["label", "heads"])
    assert not KEYS.has_one_of(["label", "run"])
