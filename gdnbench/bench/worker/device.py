"""The device as the preflight and the CPU timer need it: wait, time a call, and tell whether it still works."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch

Call = Callable[[], object]


class WorkerDevice(Protocol):
    """What differs between a GPU and a CPU."""

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's own stream the current one."""

    def synchronize(self) -> None:
        """Waits for all work; raises what went wrong in it."""

    def time_us(self, run: Call, calls: int) -> float:
        """Mean time of a warm call, microseconds; a rough figure."""


class CpuDevice:
    """Work is done when the call returns."""

    def current(self) -> AbstractContextManager[object]:
        """There are no streams."""
        return nullcontext()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def time_us(self, run: Call, calls: int) -> float:
        """By the wall clock."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls * 1e6


class CudaDevice:
    """One GPU, device 0 of this process, with a stream of the worker's own.

    The stream is not the default one: work that a kernel puts on the default stream then shows.
    """

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's stream current, for torch and Triton alike."""
        return torch.cuda.stream(self.stream)

    def synchronize(self) -> None:
        """Waits for every stream of the device."""
        torch.cuda.synchronize()

    def time_us(self, run: Call, calls: int) -> float:
        """By CUDA events around back-to-back calls."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record(self.stream)
        for _ in range(calls):
            run()
        end.record(self.stream)
        end.synchronize()
        return float(start.elapsed_time(end)) / calls * 1e3


def is_alive(device: WorkerDevice) -> bool:
    """Whether the device still answers; after a fault such as an illegal address a process's context is lost."""
    try:
        device.synchronize()
    except Exception:
        return False
    return True
