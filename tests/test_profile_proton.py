"""Recording with Proton: what the parent asks for, what the worker leaves, and what a scope compiles to."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults import python_path
from proton_data import SCOPES, recording, store

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


def test_a_recording_whose_trace_has_gone_says_which(tmp_path):
    path = store(tmp_path, trace="gone.chrome_trace.gz")
    with pytest.raises(ProfilerError, match=r"gone\.chrome_trace\.gz"):
        load_profile(path)


def test_a_trace_of_other_launches_than_were_made_is_refused(tmp_path):
    with pytest.raises(ProfilerError, match=r"3 launches besides .* and 7 were made"):
        load_profile(store(tmp_path, launches=7))


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
        ("op", 3),
        ("case", {}),
        ("triton", None),
        ("times_us", {}),
        ("times_us", {"instrumented": [5.0]}),
        ("times_us", {"plain": []}),
        ("times_us", {"plain": [0.0]}),
        ("times_us", {"plain": [1e300]}),
        ("trace", "../../../etc/passwd"),
        ("trace", "a\0b"),
        ("mode", {}),
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
        ("kernel", None),
        ("params", {"BV": 1.5}),
        ("role", "villain"),
        ("shape", {"B": -1, "HQ": 4, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 3, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1}),
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


def test_files_of_before_there_was_a_source_are_read():
    [path] = (Path(__file__).parents[1] / "profiles" / "proton" / "decode-triton").glob("*.json")
    opened = load_profile(path)
    assert opened.recording.source == ""
    assert opened.breakdown.launches


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


def test_a_grid_too_large_for_one_launch_is_refused(collect):
    with pytest.raises(UsageError, match="too many") as raised:
        collect("decode-triton:BV=8:WARPS=8", "B=64")
    assert "a smaller B than 64" in raised.value.hint


@pytest.mark.parametrize(("label", "why"), [("prefill-triton", "several launches"), ("decode-fla", "through Python")])
def test_what_is_no_single_launch_of_tritons_is_refused_with_what_times_it(collect, label, why):
    with pytest.raises(UsageError, match=why) as raised:
        collect(label, "")
    assert f"gdnbench run --kernel {label}" in raised.value.hint


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
