"""CUDA made up on the CPU: tensors lie in the host's memory, and a launch takes a fixed time on a clock of its own."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from cuda.bindings import driver
from torch.overrides import TorchFunctionMode

from gdnbench.workers import cold
from gdnbench.workers.launched import FILL, Activity, ActivityRecorder

KERNEL_US, FILL_US = 2.0, 100.0


class OnCpu(TorchFunctionMode):
    """Has torch allocate on the CPU what is asked for on the GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        there = {name: _on_cpu(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
        return function(*map(_on_cpu, args), **there)


def _on_cpu(value):
    return "cpu" if isinstance(value, str) and value == "cuda" else value


class MadeUpGpu:
    """What was launched, in order; a kernel of gdnbench's own takes no time."""

    def __init__(self):
        self.launched, self.now_ns, self.is_alive = [], 0.0, True

    def launch(self, name, us=0.0):
        self.launched.append(Activity(name, self.now_ns, self.now_ns + us * 1e3))
        self.now_ns += us * 1e3

    def fill(self, *_):
        self.launch(FILL, FILL_US)
        return (driver.CUresult.CUDA_SUCCESS,)

    def synchronize(self):
        if not self.is_alive:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def event(self, **_):
        """An event; times are in ms, as CUDA's."""
        made = SimpleNamespace(at_ns=0.0, synchronize=self.synchronize)
        made.record = lambda *_: setattr(made, "at_ns", self.now_ns)
        made.elapsed_time = lambda end: (end.at_ns - made.at_ns) / 1e6
        return made


@contextmanager
def cuda_made_up():
    """Puts such a GPU in the place of CUDA."""
    gpu, stream = MadeUpGpu(), SimpleNamespace(cuda_stream=77)
    about = SimpleNamespace(uuid="0", multi_processor_count=4, L2_cache_size=64)
    stands_in = {
        torch.cuda: {
            "Stream": lambda: stream, "current_stream": lambda: stream, "stream": lambda _: nullcontext(),
            "synchronize": gpu.synchronize, "Event": gpu.event, "get_device_properties": lambda _: about,
        },
        cold: {
            "driver": SimpleNamespace(cuMemsetD8Async=gpu.fill, CUresult=driver.CUresult),
            "open_nvml": lambda: nullcontext(None), "RAISE_CLOCK_S": 0.0,
        },
        cold.OwnKernel: {
            "__init__": lambda own, name, *_, **__: setattr(own, "name", name),
            "launch": lambda own, *_: gpu.launch(cold.OWN_PREFIX + own.name),
        },
        ActivityRecorder: {"start": lambda _: gpu.launched.clear(), "stop": lambda _: gpu.launched},
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, OnCpu():
        for place, names in stands_in.items():
            for name, value in names.items():
                patch.setattr(place, name, value)
        yield gpu
