"""What a kernel replaces of the functions that it is judged with, and what others may."""

import time
from functools import partial

import pytest
import torch

from gdnbench.launch import Workspace
from gdnbench.measure.worker import cpu
from gdnbench.verify import examine, gates
from gdnbench.workers import device
from gdnbench.workers.device import FunctionSnapshot, told


@pytest.fixture(scope="module")
def snapshot():
    return FunctionSnapshot()


def test_nothing_is_replaced_by_what_kernels_import(snapshot):
    import torch._dynamo
    import torch._inductor
    import torch.profiler
    import triton  # noqa: F401

    torch.compile(lambda x: x + 1)
    assert snapshot.replaced() == ()


REPLACED = {
    "gdnbench.verify.examine.verify_kernel": (examine, "verify_kernel"),
    "gdnbench.measure.worker.cpu.bind": (cpu, "bind"),
    "gdnbench.workers.device.CpuDevice.time_us": (device.CpuDevice, "time_us"),
    "gdnbench.launch.workspace.Workspace.reset_all": (Workspace, "reset_all"),
    "torch.isfinite": (torch, "isfinite"),
    "torch.cuda.streams.Event.elapsed_time": (torch.cuda.Event, "elapsed_time"),
    "time.perf_counter_ns": (time, "perf_counter_ns"),
    "builtins.max": (__builtins__, "max"),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_function_is_named(snapshot, monkeypatch, name):
    owner, key = REPLACED[name]
    if isinstance(owner, dict):
        monkeypatch.setitem(owner, key, partial(owner[key]))
    else:
        monkeypatch.setattr(owner, key, lambda *_: None)
    replaced = snapshot.replaced()
    monkeypatch.undo()
    assert name in replaced
    assert snapshot.replaced() == ()


def test_a_function_that_hides_an_inherited_one_is_seen(snapshot):
    torch.Tensor.double = lambda self: self
    try:
        assert snapshot.replaced() == ("torch.Tensor.double",)
    finally:
        del torch.Tensor.double
    assert snapshot.replaced() == ()


def test_code_that_is_put_into_a_function_is_seen(snapshot):
    held = gates.unchanged_gate.__code__
    gates.unchanged_gate.__code__ = (lambda *_: None).__code__
    try:
        assert snapshot.replaced() == ("gdnbench.verify.gates.unchanged_gate", "gdnbench.verify.check.unchanged_gate")
    finally:
        gates.unchanged_gate.__code__ = held
    assert snapshot.replaced() == ()


def test_a_few_names_are_told():
    assert told(("a", "b")) == "it replaces functions that it is judged with: a, b"
    assert told(("a", "b", "c", "d", "e")).endswith(": a, b, c and 2 more")
