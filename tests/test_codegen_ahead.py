"""Builder processes: kernels that crash, hang or talk lose their own job and no other."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from decode_workloads import decode_at

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.build import Job
from gdnbench.errors import BuildError, MachineError, UsageError
from gdnbench.model.gpu import UNREAD, Build

ROOT = Path(__file__).parent / "data" / "binary" / "kernels"
CATALOG = load_catalog([default_roots()[0], ROOT])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "builds"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def _job(name, batch=1, arch="sm_90"):
    entry = CATALOG.entries[name]
    return Job(entry, entry.default, decode_at(B=batch), arch)


def test_crashing_failing_and_talking_kernels_harm_only_themselves():
    names = ["test-dies", "decode-v4", "test-noisy", "test-syntax-error", "decode-floor-copy"]
    jobs = [_job(name) for name in names]
    told = {}
    results = build_all(jobs, processes=1, on_result=told.__setitem__)
    assert list(results) == jobs
    assert told == results
    dies, v4, noisy, syntax_error, copy = results.values()
    assert isinstance(dies, BuildError)
    assert "test-dies at qk4_v8 for sm_90: the compiling process ended with exit code 3" in dies.message
    assert dies.message.endswith("last words")
    assert isinstance(syntax_error, BuildError)
    assert "kernel.cu:5: error" in syntax_error.message
    assert all(isinstance(result, Build) for result in (v4, noisy, copy))
    assert noisy.symbol == "kernel"


def test_code_is_read_where_it_is_asked_for_and_once():
    job = _job("decode-v4")
    unasked = replace(job, disassembled=False)
    assert build_all([unasked])[unasked].load_bits == UNREAD
    assert build_all([unasked, job])[job].load_bits == 128
    assert build_all([unasked])[unasked].load_bits == 128


def test_a_source_that_hangs_when_imported_costs_one_limit_and_the_rest_is_built():
    started = time.monotonic()
    jobs = [_job("test-hangs"), _job("test-hangs", arch="sm_100"), _job("decode-v4")]
    results = build_all(jobs, processes=1, import_s=3)
    assert time.monotonic() - started < 20
    *hanging, v4 = results.values()
    for hangs in hanging:
        assert isinstance(hangs, BuildError)
        assert "importing its source did not end within 3 s" in hangs.message
    assert isinstance(v4, Build)


def test_a_build_that_takes_too_long_is_stopped_and_the_rest_is_built():
    long, v4 = build_all([_job("decode-triton"), _job("decode-v4")], processes=2, timeout_s=1e-3).values()
    assert "not built within 0.001 s" in long.message
    assert "not built within 0.001 s" in v4.message


def test_a_cache_that_cannot_be_written_is_the_machines_fault(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="cannot write to the build cache"):
        build_all([_job("decode-v4")])


def test_errors_keep_their_class_across_the_process():
    [result] = build_all([_job("decode-v4", arch="sm_35")]).values()
    assert type(result) is UsageError
    assert "sm_90" in result.hint


def test_batch_sizes_share_a_build_and_the_second_time_needs_no_process(monkeypatch):
    jobs = [_job("decode-v4", batch) for batch in (1, 8, 64)]
    first = build_all([*jobs, jobs[0]])
    assert list(first) == jobs
    assert len(set(first.values())) == 1
    monkeypatch.setattr("gdnbench.codegen.ahead.Builder", None)
    assert build_all(jobs) == first


def test_no_builder_outlives_an_interruption():
    def stop(_job, _result):
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build_all([_job("test-hangs"), _job("decode-v4")], processes=2, on_result=stop)
    assert time.monotonic() - started < 15
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(b"gdnbench.codegen.ahead" in command for command in commands)


def test_torch_kernels_are_no_jobs():
    with pytest.raises(TypeError, match="has no cubin"):
        _job("decode-reference")


def test_importing_it_loads_no_compiler():
    heavy = "torch", "triton", "cuda", "numpy"
    code = f"import sys, gdnbench.codegen.ahead; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "[]"
