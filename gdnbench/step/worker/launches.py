"""Measures launches alone: the host's time, and the time from the start of one empty kernel to that of the next."""

from __future__ import annotations

import ctypes
import gc
import itertools
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream
from cuda.core import launch as enqueue

from gdnbench.errors import GdnbenchError
from gdnbench.launch import load_file
from gdnbench.model.status import Status
from gdnbench.step.plan import GAP, LAUNCHES, LaunchWay, StepTask
from gdnbench.step.worker.loop import CLoop, Launch, LaunchRefusedError, listed
from gdnbench.store.journal import EventChannel, Examined, Sampled, StepBegun
from gdnbench.workers.activities import COPY, FILL, Activity, ActivityRecorder
from gdnbench.workers.cold import OWN_PREFIX, BlockingKernel, raise_clock
from gdnbench.workers.device import CudaDevice, capture

Many = Callable[[], object]
"""Enqueues `LAUNCHES` empty kernels."""


def measure_launches(task: StepTask, channel: EventChannel) -> None:
    """Measures every way once a round; a way that is unavailable here reports why."""
    device = CudaDevice()
    with device.current():
        ready: dict[str, Many] = {}
        for case in task.cases:
            channel.send(StepBegun(case.id, "prepare", task.step_limit_s))
            try:
                many = _make(LaunchWay(case.label), case.workload.arguments, device.stream.cuda_stream)
                many()
                device.synchronize()
            except GdnbenchError as error:
                channel.send(Examined(case.id, Status.UNSUPPORTED, error.message))
            except Exception as error:
                channel.send(Examined(case.id, Status.FAILED, f"{type(error).__name__}: {error}".partition("\n")[0]))
            else:
                ready[case.id] = many
        channel.send(StepBegun("", "raise the clocks", task.step_limit_s))
        raise_clock()
        gc.disable()
        for number, id_ in _visits(task, ready):
            channel.send(StepBegun(id_, "time the host", task.step_limit_s))
            times_us = []
            for _ in range(task.samples[id_]):
                device.synchronize()
                begun = time.perf_counter_ns()
                ready[id_]()
                times_us.append((time.perf_counter_ns() - begun) / 1e3 / LAUNCHES)
            device.synchronize()
            channel.send(Sampled(number, id_, tuple(times_us)))
        # After all host times, since CUPTI may slow launches once it has been on.
        recorder, blocking = ActivityRecorder(), BlockingKernel()
        for number, id_ in _visits(task, ready):
            channel.send(StepBegun(id_, "record kernels", task.step_limit_s))
            recorder.start()
            blocking.enqueue()
            ready[id_]()
            blocking.release()
            if gap := gap_us(recorder.stop()):
                channel.send(Sampled(number, id_ + GAP, (gap,)))
        channel.send(StepBegun("", "end", task.step_limit_s))


def _visits(task: StepTask, ready: Container[str]) -> Iterator[tuple[int, str]]:
    for position, ids in enumerate(task.order):
        yield from ((task.round_number(position), id_) for id_ in ids if id_ in ready)


def gap_us(activities: list[Activity]) -> float | None:
    """Median of start to next start, µs, of `LAUNCHES` launches, ours left out; None if records are missing."""
    starts = sorted(each.start_ns for each in activities if not each.name.startswith((OWN_PREFIX, FILL, COPY)))
    if len(starts) != LAUNCHES:
        return None
    return median(later - earlier for earlier, later in itertools.pairwise(starts)) / 1e3


def _make(way: LaunchWay, arguments: int, stream: int) -> Many:
    match way:
        case LaunchWay.TRITON:
            return _triton(arguments)
        case LaunchWay.TORCH:
            number = torch.zeros(1, device="cuda")
            return lambda: [number.fill_(1.0) for _ in range(LAUNCHES)]
        case _:
            return _Empty(arguments, stream).make(way)


class _Empty:
    def __init__(self, arguments: int, stream: int) -> None:
        device = Device(torch.cuda.current_device())
        device.set_current()
        name = f"step_empty_{arguments}"
        declared = ", ".join(f"const void* p{number}" for number in range(arguments))
        source = f'extern "C" __global__ void {name}({declared}) {{}}'
        self._code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
        self._kernel = self._code.get_kernel(name)
        self._memory = torch.zeros(1, device="cuda")
        self._stream = stream
        self._values = (ctypes.c_void_p * arguments)(*[self._memory.data_ptr()] * arguments)
        size = ctypes.sizeof(ctypes.c_void_p)
        base = ctypes.addressof(self._values)
        self._addresses = (ctypes.c_void_p * arguments)(*(base + size * number for number in range(arguments)))

    def make(self, way: LaunchWay) -> Many:
        match way:
            case LaunchWay.CUDA_CORE:
                return self._cuda_core()
            case LaunchWay.DRIVER:
                return self._driver()
            case LaunchWay.GRAPH:
                many = self._loop(extended=False)
                captured = capture(lambda: (many(), ())[1], strict=False)
                self._captured = captured, many
                return captured.graph.replay
            case _:
                return self._loop(extended=way is LaunchWay.C_LOOP_EX)

    def _cuda_core(self) -> Many:
        stream, kernel = Stream.from_handle(self._stream), self._kernel
        config = LaunchConfig(grid=(1, 1, 1), block=(32, 1, 1))
        arguments = [self._memory.data_ptr()] * len(self._values)

        def many() -> None:
            for _ in range(LAUNCHES):
                enqueue(stream, config, kernel, *arguments)

        return many

    def _driver(self) -> Many:
        _, function = driver.cuKernelGetFunction(driver.CUkernel(int(self._kernel.handle)))
        addresses, stream = ctypes.addressof(self._addresses), driver.CUstream(self._stream)

        def many() -> None:
            for _ in range(LAUNCHES):
                (status,) = driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, addresses, 0)
            if status != driver.CUresult.CUDA_SUCCESS:
                raise LaunchRefusedError(f"cuLaunchKernel returned {status.name}")
            _ = self._memory

        return many

    def _loop(self, *, extended: bool) -> Many:
        loop = CLoop()
        launch = Launch(
            function=int(self._kernel.handle),
            arguments=ctypes.addressof(self._addresses),
            grid=(1, 1, 1),
            block=(32, 1, 1),
            programmatic=int(extended),
        )
        array = listed([launch] * LAUNCHES)
        enqueue_all = loop.launch_extended if extended else loop.launch_plain

        def many() -> None:
            enqueue_all(array, self._stream)

        return many


_TRITON_SOURCE = """import triton


@triton.jit
def {name}({arguments}):
    pass
"""


def _triton(arguments: int) -> Many:
    """Launches of an empty Triton kernel, from a file, as Triton needs; unused pointers are still passed."""
    name = f"step_empty_{arguments}"
    values: list[Any] = [torch.zeros(1, device="cuda")] * arguments
    with TemporaryDirectory(prefix="gdnbench-step-") as folder:
        path = Path(folder) / f"{name}.py"
        names = ", ".join(f"p{number}" for number in range(arguments))
        path.write_text(_TRITON_SOURCE.format(name=name, arguments=names))
        compiled = getattr(load_file(path), name)[(1,)](*values)
        torch.cuda.synchronize()
    run = compiled[(1, 1, 1)]

    def many() -> None:
        for _ in range(LAUNCHES):
            run(*values)

    return many
