"""Reading Proton's traces, those it wrote and those it did not."""

import gzip
import json

import numpy as np
import pytest
from proton_data import CLOCK32, CUPTI, EIGHT, SCOPES, event, write_trace

from gdnbench.errors import ProfilerError
from gdnbench.profile.recording import durations_by_scope, read_trace


def make(path, events):
    return durations_by_scope(read_trace(write_trace(path, events)), sm_mhz=1.0)


def test_a_recorded_trace_is_every_scope_of_every_warp_of_every_launch():
    breakdown = durations_by_scope(read_trace(CLOCK32), sm_mhz=1.0)
    assert list(breakdown.phases) == SCOPES
    assert (breakdown.launches, breakdown.warps) == (4, 16)
    events = json.loads(gzip.decompress(CLOCK32.read_bytes()))["traceEvents"]
    for name in SCOPES:
        written = sum(each["dur"] for each in events if each["name"] == name) * 1e3
        assert breakdown.phases[name].sum() == pytest.approx(written)


def test_launches_are_in_the_order_in_which_they_ran():
    # The first launch of the recording, which loaded the code, took 4708 cycles on average and the others 3180.
    launches = durations_by_scope(read_trace(CLOCK32), sm_mhz=1.0).totals.mean(axis=1)
    assert launches[0] > 1.3 * launches[1:].max()


def test_a_measured_clock_makes_microseconds_of_cycles():
    cycles, times = (durations_by_scope(read_trace(EIGHT), sm_mhz=mhz, skip=1) for mhz in (1.0, 1980.0))
    assert times.launches == 3
    np.testing.assert_allclose(times.totals, cycles.totals / 1980)
    np.testing.assert_allclose(times.phases["gates"], cycles.phases["gates"] / 1980)


def test_a_gzipped_trace_reads_as_a_plain_one(tmp_path):
    events = [event("load", 0.0, 100), event("store", 0.2, 50)]
    plain, packed = (write_trace(tmp_path / f"{packed}", events, packed=packed) for packed in (False, True))
    np.testing.assert_array_equal(read_trace(plain).length, read_trace(packed).length)


def test_a_scope_in_a_loop_adds_up_and_one_that_a_warp_skips_is_not_there(tmp_path):
    events = [
        event("tile", 0.0, 100),
        event("tile", 0.15, 200),
        event("rest", 0.4, 10),
        event("tile", 0.0, 70, warp=1),
        event("tile", 0.1, 80, warp=1),
    ]
    breakdown = make(tmp_path / "t", events)
    np.testing.assert_allclose(breakdown.phases["tile"], [[300, 150]])
    np.testing.assert_allclose(breakdown.phases["rest"], [[10, np.nan]])
    np.testing.assert_allclose(breakdown.totals, [[410, 180]])


def test_the_order_of_scopes_is_that_of_the_clock_and_not_that_of_the_file(tmp_path):
    assert list(make(tmp_path / "t", [event("b", 0.5, 10), event("a", 0.1, 10)]).phases) == ["a", "b"]


def test_one_block_on_the_same_sm_again_is_another_launch(tmp_path):
    breakdown = make(tmp_path / "t", [event("a", 0.0, 1000), event("a", 5000.0, 3000), event("a", 9000.0, 2000)])
    np.testing.assert_allclose(breakdown.totals, [[1000], [3000], [2000]])


def test_blocks_that_run_after_others_are_the_same_launch(tmp_path):
    waves = [event("a", wave * 50.0, 49_900, block=wave) for wave in range(10)]
    breakdown = make(tmp_path / "t", waves)
    assert (breakdown.launches, breakdown.warps) == (1, 10)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        # Two launches so close that they look like one: the block stands on two SMs.
        ([event("a", 0.0, 10, core=1), event("a", 1.0, 10, core=2)], "equal grids"),
        # A warp whose clock wrapped: Proton leaves it out of the second launch.
        ([event("a", 0.0, 9), event("a", 0.0, 9, warp=1), event("a", 9e3, 9)], "equal grids"),
        ([event("a", 0.0, 2**31 + 1000)], "clock wrapped"),
        ([event("a", 0.0, -5)], "clock wrapped"),
    ],
)
def test_a_trace_that_would_mislead_is_refused(tmp_path, events, reason):
    with pytest.raises(ProfilerError, match=reason):
        make(tmp_path / "t", events)


def test_a_full_buffer_is_refused_and_one_that_is_not_is_not(tmp_path):
    spans = read_trace(write_trace(tmp_path / "t", [event("a", n / 10, 10) for n in range(8)]))
    assert durations_by_scope(spans, sm_mhz=1.0, capacity=9).totals.shape == (1, 1)
    with pytest.raises(ProfilerError, match="8 passes"):
        durations_by_scope(spans, sm_mhz=1.0, capacity=8)


def test_launches_that_all_warm_up_leave_nothing():
    with pytest.raises(ProfilerError, match="holds 4 launches"):
        durations_by_scope(read_trace(CLOCK32), sm_mhz=1.0, skip=4)


def _cut(path):
    path.write_bytes(gzip.compress(gzip.decompress(CLOCK32.read_bytes())[:-40]))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: path.write_bytes(b""), "holds no scopes"),  # what Proton leaves of a kernel without any
        (lambda path: write_trace(path, []), "holds no scopes"),
        (lambda path: path.write_bytes(CLOCK32.read_bytes()[:2000]), "cannot be read"),
        (_cut, "truncated"),
        (lambda path: path.write_text('{"traceEvents": 3}'), "not a trace"),
        (lambda path: path.write_bytes(CUPTI.read_bytes()), "not a trace of Proton's instrumentation"),
        (lambda path: write_trace(path, [{**event("a", 0, 1), "pid": 4711}]), "not a trace"),
        (lambda path: None, "no such file"),
        (lambda path: write_trace(path, [{**event("a", 0, 1), "ts": None}]), r"not a trace.*: traceEvents\[0\]\.ts: "),
        (lambda path: write_trace(path, [{**event("a", 0, 1), "ts": float("nan")}]), "JSON is malformed"),
        (lambda path: write_trace(path, [event("a", 0, 1, block=10**30)]), "not a trace.*names no warp"),
        (lambda path: path.write_bytes(b'{"traceEvents": [{"name": "\xff"}]}'), "not a trace"),
    ],
)
def test_what_is_no_such_trace_is_refused_with_its_name(tmp_path, write, reason):
    path = tmp_path / "some.chrome_trace"
    write(path)
    with pytest.raises(ProfilerError, match=reason) as raised:
        read_trace(path)
    assert "some.chrome_trace" in raised.value.message
    assert raised.value.hint
