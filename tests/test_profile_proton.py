"""Recording with Proton: what the parent asks for, and how its traces are read."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from faults import python_path
from proton_data import CLOCK32, CUPTI, EIGHT, SCOPES, event, recording, store, write_trace

from gdnbench import trace
from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode, ProfilerError, ReportFormatError, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import Completed
from gdnbench.profile.collect import ScopeRequest, collect_scopes
from gdnbench.profile.process import choose_case
from gdnbench.profile.recording import durations_by_scope, load_profile, read_recording, read_trace

H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-8ffb366f", capability=(9, 0))


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_a_recording_survives_its_file(tmp_path):
    path = store(tmp_path, notes=("one",))
    assert read_recording(path) == recording(notes=("one",))


def test_a_stored_recording_opens_in_microseconds_of_its_own_clock(tmp_path):
    opened = load_profile(store(tmp_path))
    assert opened.breakdown.launches == 3
    cycles = durations_by_scope(read_trace(opened.trace), sm_mhz=1.0).totals
    assert opened.breakdown.totals == pytest.approx(cycles[1:] / 1980)


def test_a_kernel_without_scopes_has_no_breakdown(tmp_path):
    opened = load_profile(store(tmp_path, trace="", sm_mhz=(), launches=0))
    assert opened.breakdown is None
    assert opened.trace is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"trace": "gone.chrome_trace.gz"}, r"gone\.chrome_trace\.gz"),
        ({"launches": 7}, r"3 launches besides .* and 7 were made"),
    ],
)
def test_a_recording_that_is_not_that_of_its_trace_is_refused(tmp_path, changed, told):
    with pytest.raises(ProfilerError, match=told):
        load_profile(store(tmp_path, **changed))


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema": 1}', '{"schema": 99}', "\x00"])
def test_a_file_that_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ReportFormatError, match=r"other\.json"):
        load_profile(path)


def _edited(path, **fields):
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **fields}))
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("case", {}),
        ("times_us", {"instrumented": [5.0]}),
        ("times_us", {"plain": [0.0]}),
        ("times_us", {"plain": [1e300]}),
        ("trace", "../../../etc/passwd"),
        ("launches", -1),
        ("capacity", "32"),
        ("sm_mhz", [0.0]),
        ("notes", "one"),
        ("source", "0123"),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_named(tmp_path, field, value):
    path = _edited(store(tmp_path), **{field: value})
    with pytest.raises(ReportFormatError, match=field) as raised:
        load_profile(path)
    assert path.name in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("label", ""),
        ("params", {"BV": 1.5}),
        ("role", "villain"),
        ("shape", {"B": -1, "HQ": 4, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 3, "HV": 8, "K": 128, "V": 128}),
    ],
)
def test_a_part_of_a_case_that_cannot_be_is_refused(tmp_path, part, value):
    path = store(tmp_path)
    case = {**json.loads(path.read_text())["case"], part: value}
    with pytest.raises(ReportFormatError, match=path.name):
        load_profile(_edited(path, case=case))


@pytest.mark.parametrize(
    "content",
    [
        "[" * 200_000,
        '{"schema": 1, "op": ' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        '{"schema": 1, "traceEvents": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_is_nested_deeply_ends_in_an_error_and_no_traceback(command_line, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    code, out, err = command_line("proton", "--import", path, columns="300")
    assert (code, out) == (ExitCode.PROFILER, "")
    assert str(path) in err
    assert "Traceback" not in err


@pytest.fixture
def collect(catalog, tmp_path, monkeypatch):
    """Traces a kernel on an H200 that is not here, by a worker that is played; gives file, launches and notes."""
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: [H200])

    def run(label, axes="B=1", code=0, output=""):
        launches, notes = [], []

        def worker(task, gpu, *, limit_s):
            launches.append(task.launches)
            recording(op=task.op, case=task.case).write(Path(task.result))
            return Completed(code, output)

        monkeypatch.setattr("gdnbench.profile.collect.run_worker", worker)

        def observer(event):
            notes.append(event.text)

        case = choose_case(catalog, label.partition("-")[0], label, axes=axes)
        [path] = collect_scopes(ScopeRequest(catalog, "auto", tmp_path, "", None, 0, 5.0), [case], observer)
        return path, launches, notes

    return run


@pytest.mark.parametrize(
    ("label", "axes", "launches"),
    [
        ("decode-triton", "B=1", 8),
        ("decode-triton:BV=8:WARPS=8", "B=32", 1),  # 4096 blocks, 32768 warps a launch
    ],
)
def test_a_large_grid_is_traced_in_fewer_launches_and_says_so(collect, label, axes, launches):
    _, made, notes = collect(label, axes)
    assert made == [launches]
    assert [note.startswith("tracing 1 of 8 launches") for note in notes] == [True] * (launches < 8)


@pytest.mark.parametrize(
    ("label", "axes", "why", "hint"),
    [
        ("decode-triton:BV=8:WARPS=8", "B=64", "too many", "a smaller B than 64"),  # a grid too large for one launch
        ("prefill-triton", "", "several launches", "gdnbench run --kernel prefill-triton"),
        ("decode-fla", "", "through Python", "gdnbench run --kernel decode-fla"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_what_can_be_done(collect, label, axes, why, hint):
    with pytest.raises(UsageError, match=why) as raised:
        collect(label, axes)
    assert hint in raised.value.hint


def test_what_the_worker_leaves_lies_under_the_kernel(collect, tmp_path):
    path, *_ = collect("decode-triton:BV=16")
    assert path.parent == tmp_path / "proton" / "decode-triton_BV=16"
    assert path.name.endswith("-h200-B1-qk4_v8.json")
    assert read_recording(path).case.label == "decode-triton:BV=16"


@pytest.mark.parametrize(("code", "output", "said"), [(1, "out of memory\n", "out of memory"), (-11, "", "with -11")])
def test_a_worker_that_fails_is_quoted(collect, code, output, said):
    with pytest.raises(ProfilerError, match=said) as raised:
        collect("decode-triton:BV=16", code=code, output=output)
    assert raised.value.hint == "gdnbench verify decode-triton:BV=16"


def test_a_scope_does_nothing_in_plain_python():
    with trace.scope("load"):
        pass
    with pytest.raises(ValueError, match="through"), trace.scope("load"):
        raise ValueError("through")


INSTRUMENTED = ["decode-triton-ws"]


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory):
    """What `instrumented.py` tells of each kernel, by its label."""
    script = Path(__file__).parent / "instrumented.py"
    cache = str(tmp_path_factory.mktemp("triton"))
    environment = {**os.environ, "TRITON_CACHE_DIR": cache, "PYTHONPATH": python_path()}
    command = [sys.executable, str(script), *INSTRUMENTED]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("label", INSTRUMENTED)
def test_a_scope_is_two_clock_reads_when_instrumented_and_nothing_otherwise(instrumented, label):
    found = instrumented[label]
    assert found["same"]  # the JIT's plain code is that of our own build, so what is traced is what is timed
    assert sorted(found["scopes"]) == sorted(SCOPES)
    assert found["clocks"] == 2 * len(SCOPES)
    assert found["bytes"]
    assert found["capacity"] * found["warps"] * 16 == 8192
    assert (found["plain_scopes"], found["plain_bytes"]) == ([], 0)


@pytest.mark.gpu
def test_a_triton_kernel_is_traced_on_a_gpu(command_line, tmp_path):
    code, out, err = command_line("proton", "decode-triton", "--json", "--profiles", tmp_path, "--launches", 3)
    assert code == 0, err
    found = json.loads(out)
    assert [row["name"] for row in found["scopes"]][:6] == SCOPES
    assert found["launches"] == 3
    assert found["recording"]["notes"] == []
    times = {row["name"]: row["median_us"] for row in found["kernel"] if row["kind"] == "events"}
    total = next(row["avg_us"] for row in found["scopes"] if row["name"] == "total")
    assert times["plain"] < times["instrumented"] < 3 * times["plain"]
    assert total < times["instrumented"]
    assert Path(found["trace"]).stat().st_size
    assert torch.cuda.is_available()


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


@pytest.mark.parametrize(
    ("events", "totals"),
    [
        # One block on the same SM again is another launch; blocks that run after others are the same one.
        ([event("a", 0.0, 1000), event("a", 5000.0, 3000), event("a", 9000.0, 2000)], [[1000], [3000], [2000]]),
        ([event("a", wave * 50.0, 49_900, block=wave) for wave in range(10)], [[49_900] * 10]),
    ],
)
def test_launches_are_told_apart(tmp_path, events, totals):
    np.testing.assert_allclose(make(tmp_path / "t", events).totals, totals)


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
