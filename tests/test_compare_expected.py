"""What another GPU should make of a time: the study's figures come out as the study says, floors count, bounds hold."""

import math

import pytest
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.analyse.expected import expect
from gdnbench.analyse.figure import Figure, FigureSource, SourceKind
from gdnbench.machine.gpus import spec_of
from gdnbench.model.status import Role, Status

SLUGS = ("rtx3090", "a100", "h100", "h200", "b200")
TRAFFIC = 1_054_816  # bytes of B=1 qk4_v8: 1,054,752 for the entry and 64 for A_log and dt_bias


def figure(time_us, label="decode-v4", **more):
    values = {"op": "decode", "kernel": label, "label": label, "workload": decode_at(), "timer": "nvbench"}
    return Figure(time_us=time_us, **{**values, **more})


def source(gpu, *figures):
    return FigureSource(name=gpu, kind=SourceKind.MEASURED, gpu=gpu, figures=figures)


def floor(time_us, label="decode-floor-empty", **more):
    return figure(time_us, label, kernel="decode-floor-empty", role=Role.FLOOR, **more)


def between(left, right, left_gpu="h200", right_gpu="b200", others=((), ())):
    return expect(left, right, source(left_gpu, left, *others[0]), source(right_gpu, right, *others[1]))


def test_by_hand_without_floors():
    """H200 to B200: 0.21975 of 5 µs is traffic at 4800 GB/s, and at 8000 it is 0.13185; the rest stays."""
    expectation = between(figure(5.0), figure(6.0))
    assert expectation.ratio == pytest.approx((TRAFFIC / 8e6 + 5.0 - TRAFFIC / 4.8e6) / 5.0)
    assert expectation.residual == pytest.approx(1.2 / expectation.ratio)


def test_by_hand_with_floors():
    expectation = between(figure(5.0), figure(6.0), others=([floor(2.0)], [floor(3.0)]))
    assert expectation.ratio == pytest.approx((TRAFFIC / 8e6 + 1.5 * (5.0 - TRAFFIC / 4.8e6)) / 5.0)


def test_a_floor_on_one_side_alone_tells_nothing():
    left, right = figure(5.0), figure(6.0)
    assert between(left, right, others=([floor(2.0)], [])) == between(left, right)


@pytest.mark.parametrize("other", [
    floor(9.0, workload=decode_at(B=2)), floor(9.0, timer="cupti"), floor(math.nan),
    floor(9.0, "decode-floor-empty:WARPS=1"), floor(9.0, status=Status.CRASHED, reason="died"),
])  # fmt: skip
def test_the_floor_is_that_of_the_workload_the_timer_and_the_default_grid(other):
    left, right = figure(5.0), figure(6.0)
    plain = between(left, right, others=([floor(2.0)], [floor(3.0)]))
    assert between(left, right, others=([other, floor(2.0)], [other, floor(3.0)])) == plain


def test_large_batches_are_bound_by_bandwidth():
    workload = decode_at(B=256, HQ=16, HV=32)
    expectation = between(figure(260.0, workload=workload), figure(170.0, workload=workload))
    assert expectation.bound == "bandwidth"
    assert 0.6 < expectation.ratio < 0.8


def test_a_figures_own_bytes_come_before_the_ops_formula():
    plain, told = between(figure(5.0), figure(6.0)), between(figure(5.0, nbytes=10_000_000), figure(6.0))
    assert (plain.bound, told.bound) == ("latency", "latency")
    assert told.ratio < plain.ratio


def test_a_time_below_the_traffics_is_all_traffic():
    """As of a state that stayed in the L2."""
    expectation = between(figure(0.1), figure(0.1))
    assert expectation.bound == "bandwidth"
    assert expectation.ratio == pytest.approx(4800 / 8000)


@pytest.mark.parametrize(("left", "right", "left_gpu", "right_gpu"), [
    (figure(5.0), figure(6.0), "h200", "h200"),
    (figure(5.0), figure(6.0), "h200", "rtx9999"),
    (figure(5.0), figure(6.0), "", "b200"),
    (figure(5.0), figure(6.0), "cpu", "b200"),
    (figure(math.nan), figure(6.0), "h200", "b200"),
    (figure(5.0), figure(math.nan, status=Status.CRASHED, reason="died"), "h200", "b200"),
    (figure(5.0), figure(0.0), "h200", "b200"),
    (figure(5.0), figure(math.inf), "h200", "b200"),
    (figure(5.0), figure(3.0, timer="cupti"), "h200", "b200"),
    (figure(5.0), figure(6.0, workload=decode_at(B=2)), "h200", "b200"),
    (figure(5.0, op="unheard-of"), figure(6.0, op="unheard-of"), "h200", "b200"),
])  # fmt: skip
def test_where_nothing_can_be_expected_nothing_is(left, right, left_gpu, right_gpu):
    assert between(left, right, left_gpu, right_gpu) is None


TIMES = st.floats(0.01, 1e5)
WORKLOADS = st.builds(decode_at, B=st.integers(1, 512), HQ=st.sampled_from([4, 16]), HV=st.just(32))


@given(left_us=TIMES, right_us=TIMES, workload=WORKLOADS, slugs=st.permutations(SLUGS))
def test_the_expected_ratio_lies_between_the_bandwidths_and_no_change(left_us, right_us, workload, slugs):
    left_gpu, right_gpu, *_ = slugs
    expectation = between(figure(left_us, workload=workload), figure(right_us, workload=workload), left_gpu, right_gpu)
    bandwidths = spec_of(left_gpu).bandwidth_gbs / spec_of(right_gpu).bandwidth_gbs
    assert min(bandwidths, 1) * (1 - 1e-9) <= expectation.ratio <= max(bandwidths, 1) * (1 + 1e-9)
    assert expectation.residual * expectation.ratio == pytest.approx(right_us / left_us)
