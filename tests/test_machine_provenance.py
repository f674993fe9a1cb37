import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake_nvml import H200, HEALTHY, REFUSED, FakeNvml

from gdnbench.machine import provenance
from gdnbench.machine.gpus import list_gpus
from gdnbench.machine.provenance import (
    GpuProcess,
    GpuState,
    describe_machine,
    git_state,
    read_state,
    relevant_variables,
    run_tool,
    throttle_words,
)
from gdnbench.model.gpu import Gpu


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_describes_a_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(H200))
    gpu = describe_machine(list_gpus()[0])["gpu"]
    assert gpu["name"] == "NVIDIA H200"
    assert gpu["sms"] == 132
    assert gpu["capability"] == [9, 0]
    assert (gpu["driver"], gpu["cuda_driver"], gpu["ecc"], gpu["power_limit_w"]) == ("580.159.04", "13.0", True, 700)


def test_describes_a_machine_without_one():
    machine = describe_machine(None)
    assert machine["gpu"] is None
    assert machine["versions"]["python"].startswith("3.")
    assert machine["host"]["cores"] >= machine["host"]["usable_cores"] >= 1
    assert json.loads(json.dumps(machine)) == machine


def test_keeps_the_relevant_variables_and_no_secret():
    environ = {
        "TRITON_CACHE_DIR": "/c",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_API_KEY": "nvapi-1",
        "PYTORCH_CUDA_ALLOC_CONF": "a:b",
        "TORCH_LOGS": "x",
        "MY_CUDA_HOME": "no",
        "HOME": "/root",
    }
    assert relevant_variables(environ) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_API_KEY": "(withheld)",
        "PYTORCH_CUDA_ALLOC_CONF": "a:b",
        "TORCH_LOGS": "x",
        "TRITON_CACHE_DIR": "/c",
    }


def test_git_state_is_asked_once(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(provenance, "run_tool", lambda *given, **more: asked.append(given) or run_tool(*given, **more))
    git(tmp_path, "init", "-b", "main")
    assert git_state(tmp_path) == {"commit": None, "branch": "main", "dirty": False}
    git(tmp_path, "commit", "--allow-empty", "-m", "one")
    state = git_state(tmp_path)
    assert len(state["commit"]) == 40
    assert (state["branch"], state["dirty"]) == ("main", False)
    (tmp_path / "kernel.cu").write_text("")
    assert git_state(tmp_path)["dirty"] is True
    git(tmp_path, "checkout", "--detach")
    assert git_state(tmp_path)["branch"] is None
    assert len(asked) == 4


@pytest.mark.parametrize("exists", [True, False])
def test_outside_a_checkout(tmp_path, monkeypatch, exists):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    folder = tmp_path if exists else tmp_path / "none"
    assert git_state(folder) == {"commit": None, "branch": None, "dirty": None}


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == {"commit": None, "branch": None, "dirty": None}


def state_of(monkeypatch, device, **options):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(device, **options))
    return read_state(list_gpus()[0])


def test_reads_a_healthy_h200(monkeypatch):
    assert state_of(monkeypatch, H200) == GpuState(**HEALTHY)


def test_what_is_refused_is_none(monkeypatch):
    kept = {name: H200[name] for name in ("UUID", "CudaComputeCapability")}
    state = state_of(monkeypatch, dict.fromkeys(H200, REFUSED) | kept)
    assert state == GpuState(driver_version="580.159.04", cuda_driver_version="13.0")


def test_a_gpu_that_has_gone(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(H200))
    assert read_state(Gpu(0, "NVIDIA H200", "GPU-gone", (9, 0))) == GpuState()


def test_processes_leave_this_one_out_and_bear_missing_names(monkeypatch):
    running = [
        SimpleNamespace(pid=os.getpid(), usedGpuMemory=1),
        SimpleNamespace(pid=41, usedGpuMemory=3 * 2**30),
        SimpleNamespace(pid=42, usedGpuMemory=None),
    ]
    state = state_of(monkeypatch, H200 | {"ComputeRunningProcesses": running}, process_names={41: "/usr/bin/python3"})
    assert state.processes == (GpuProcess(41, "/usr/bin/python3", 3 * 2**30), GpuProcess(42, "", None))


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x4, ("power cap",)),
        (0x45, ("power cap", "hardware thermal slowdown")),
        (0x1000, ("unknown reason 0x1000",)),
    ],
)
def test_throttle_words(bits, words):
    assert throttle_words(bits) == words
