import os
import sys
from types import SimpleNamespace

import pytest
from fake_nvml import H200, HEALTHY, REFUSED, FakeNvml

from gdnbench.machine.gpus import list_gpus
from gdnbench.machine.provenance import GpuProcess, GpuState, read_state, throttle_words
from gdnbench.model.gpu import Gpu


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
