"""Parts that run at once: a fault of one stops the others, and is told."""

import os
import subprocess
import sys
import threading

import pytest

from gdnbench.codegen.cache import clean
from gdnbench.model.gpu import Gpu
from gdnbench.workers.supervision import run_concurrently, worker_environment

LIMIT_S = 10


def test_parts_run_at_once():
    both = threading.Barrier(2, timeout=LIMIT_S)
    run_concurrently(lambda _stop: both.wait(), lambda _stop: both.wait())


def test_one_alone_runs_in_this_thread():
    seen = []
    run_concurrently(lambda _stop: seen.append(threading.current_thread()))
    run_concurrently()
    assert seen == [threading.main_thread()]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_fault_stops_the_others_and_is_told(fault):
    stopped = []

    def fail(_stop):
        raise fault("mine")

    def wait(stop):
        stopped.append(stop.wait(LIMIT_S))

    with pytest.raises(fault, match="mine"):
        run_concurrently(wait, fail)
    assert stopped == [True]


def test_a_worker_of_a_gpu_has_few_threads_unless_the_user_says_otherwise(monkeypatch):
    gpu = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert worker_environment(gpu)["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in worker_environment(None)  # the CPU's own kernels are what is timed there
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert worker_environment(gpu)["OMP_NUM_THREADS"] == "16"


def test_a_worker_of_a_gpu_keeps_its_byte_code_where_python_may_not_write_any(monkeypatch, tmp_path):
    gpu = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0))
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    assert not {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"} & worker_environment(gpu).keys()
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("sys.pycache_prefix", None)
    (tmp_path / "kept.py").write_text("")
    environment = {**os.environ, **worker_environment(gpu), "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import kept"], env=environment, check=True)
    assert list((tmp_path / "bytecode").rglob("*.pyc"))
    assert "PYTHONPYCACHEPREFIX" not in worker_environment(None)
    clean()
    assert not (tmp_path / "bytecode").exists()
    monkeypatch.setattr("sys.pycache_prefix", "/elsewhere")
    assert worker_environment(gpu)["PYTHONPYCACHEPREFIX"] == "/elsewhere"
