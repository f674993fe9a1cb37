"""Recording with Proton: what the parent asks for, what the worker leaves, and what a scope compiles to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults import python_path
from proton_data import CUPTI, SCOPES, recording, store, write_trace

from gdnbench import trace
from gdnbench.catalog import load_catalog
from gdnbench.errors import ProfilerError, RunFormatError, UsageError
from gdnbench.model import Gpu
from gdnbench.profilers.assignment import Errand
from gdnbench.profilers.choice import choose_case, prepare
from gdnbench.profilers.process import Ended
from gdnbench.profilers.proton import record as recorder
from gdnbench.profilers.proton.kernel_trace import durations_us
from gdnbench.profilers.proton.opened import open_stored
from gdnbench.profilers.proton.recording import Recording

H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-8ffb366f", capability=(9, 0))


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def case_of(catalog, label, shape="B=1"):
    return choose_case(catalog, "decode", label, axes=shape, heads="")


def test_a_recording_survives_its_file(tmp_path):
    path = store(tmp_path, notes=("one",))
    assert Recording.read(path) == recording(notes=("one",))


def test_a_stored_recording_opens_in_microseconds_of_its_own_clock(tmp_path):
    opened = open_stored(store(tmp_path))
    assert (opened.breakdown.launches, opened.breakdown.unit) == (3, "µs")
    cycles = open_stored(opened.trace).breakdown
    assert opened.breakdown.totals == pytest.approx(cycles.totals[1:] / 1980)


def test_a_kernel_without_scopes_has_no_breakdown(tmp_path):
    opened = open_stored(store(tmp_path, trace="", sm_mhz=(), launches=0))
    assert opened.breakdown is None
    assert opened.trace is None


def test_a_recording_whose_trace_has_gone_says_which(tmp_path):
    path = store(tmp_path, trace="gone.chrome_trace.gz")
    with pytest.raises(ProfilerError, match=r"gone\.chrome_trace\.gz"):
        open_stored(path)


def test_a_trace_of_other_launches_than_were_made_is_refused(tmp_path):
    with pytest.raises(ProfilerError, match=r"3 launches besides .* and 7 were made"):
        open_stored(store(tmp_path, launches=7))


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema": 1}', '{"schema": 99}', "\x00"])
def test_a_file_that_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(RunFormatError, match=r"other\.json"):
        open_stored(path)


def test_kernel_times_are_those_between_the_flushes():
    found = durations_us(CUPTI, 20)
    assert list(found) == ["gdn_decode"]
    assert len(found["gdn_decode"]) == 20
    assert found["gdn_decode"][:3] == [2.08, 1.984, 1.985]
    assert sum(found["gdn_decode"]) == pytest.approx(41.987)


def test_a_launch_of_several_functions_adds_those_of_one_name(tmp_path):
    names = ["flush", "a", "b", "a", "flush", "a", "b", "a"]
    events = [{"cat": "kernel", "name": name, "ts": ts, "dur": ts + 1.0} for ts, name in enumerate(names)]
    found = durations_us(write_trace(tmp_path / "t", events[::-1]), 2)
    assert found == {"a": [6.0, 14.0], "b": [3.0, 7.0]}


@pytest.mark.parametrize("content", ["", '{"traceEvents": []}', '{"traceEvents": [{"name": "a"}]}', "[]"])
def test_a_kernel_trace_that_lacks_launches_gives_no_times(tmp_path, content):
    path = tmp_path / "t"
    path.write_text(content)
    with pytest.raises(ProfilerError):
        durations_us(path, 20)


def test_a_cuda_kernel_is_sent_to_its_own_profiler(catalog):
    with pytest.raises(UsageError) as raised:
        recorder.refuse_cuda(catalog, case_of(catalog, "decode-v4"))
    assert raised.value.hint == "gdnbench phases decode-v4"
    recorder.refuse_cuda(catalog, case_of(catalog, "decode-triton"))


def test_launches_are_as_many_as_asked_for_where_the_trace_stays_small(catalog):
    said = []
    assert recorder.limit_launches(catalog, case_of(catalog, "decode-triton"), 8, said.append) == 8
    assert not said


def test_a_large_grid_is_traced_in_fewer_launches_and_says_so(catalog):
    said = []
    case = case_of(catalog, "decode-triton:BV=8:WARPS=8", "B=32")  # 4096 blocks, 32768 warps a launch
    assert recorder.limit_launches(catalog, case, 8, said.append) == 1
    assert "1 of 8 launches" in said[0]


def test_a_grid_too_large_for_one_launch_is_refused(catalog):
    with pytest.raises(UsageError, match="too many") as raised:
        recorder.limit_launches(catalog, case_of(catalog, "decode-triton:BV=8:WARPS=8", "B=64"), 8, print)
    assert "B=64" in raised.value.hint


def _record(catalog, tmp_path, monkeypatch, worker):
    monkeypatch.setattr(recorder, "run_worker", worker)
    case = case_of(catalog, "decode-triton:BV=16")
    assignment = prepare(catalog, case, Errand.PROTON, seed=0, launches=4)
    return recorder.record(assignment, H200, tmp_path, limit_s=5)


def test_what_the_worker_leaves_lies_under_the_kernel(catalog, tmp_path, monkeypatch):
    def worker(assignment, gpu, *, limit_s):
        recording(case=assignment.case).write(Path(assignment.result))
        return Ended(0, "")

    path = _record(catalog, tmp_path, monkeypatch, worker)
    assert path.parent == tmp_path / "proton" / "decode-triton_BV=16"
    assert path.name.endswith("-h200-B1-qk4_v8.json")
    assert Recording.read(path).case.label == "decode-triton:BV=16"


@pytest.mark.parametrize(("code", "output", "said"), [(1, "out of memory\n", "out of memory"), (-11, "", "with -11")])
def test_a_worker_that_fails_is_quoted(catalog, tmp_path, monkeypatch, code, output, said):
    with pytest.raises(ProfilerError, match=said) as raised:
        _record(catalog, tmp_path, monkeypatch, lambda *_, **__: Ended(code, output))
    assert raised.value.hint == "gdnbench verify decode-triton:BV=16"


def test_a_scope_does_nothing_in_plain_python():
    with trace.scope("load"):
        pass
    with pytest.raises(ValueError, match="through"), trace.scope("load"):
        raise ValueError("through")


@pytest.mark.parametrize("label", ["decode-triton", "decode-triton-tma", "decode-triton-ws"])
def test_a_scope_is_two_clock_reads_when_instrumented_and_nothing_otherwise(label, tmp_path):
    script = Path(__file__).parent / "instrumented.py"
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": python_path()}
    ended = subprocess.run(
        [sys.executable, str(script), label], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
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


@pytest.mark.gpu
def test_a_kernel_without_scopes_has_its_times_alone(command_line, tmp_path):
    code, out, err = command_line("proton", "decode-reference", "--json", "--profiles", tmp_path)
    assert code == 0, err
    found = json.loads(out)
    assert (found["scopes"], found["trace"]) == ([], None)
    assert {row["kind"] for row in found["kernel"]} == {"events", "cupti"}
