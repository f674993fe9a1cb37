"""What `compare` knows of a workload's axes: its keys, and what two workloads differ by."""

from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.analyse.figure import WorkloadKeys, differing_parts, workload_value
from gdnbench.catalog.catalog import op_named

AXES = op_named("decode").workloads
KEYS = WorkloadKeys((AXES,))
WORKLOADS = st.builds(
    lambda batch, heads, group, key, value: decode_at(B=batch, HQ=heads, HV=heads * group, K=key, V=value),
    *(st.integers(1, 512) for _ in range(5)),
)


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
