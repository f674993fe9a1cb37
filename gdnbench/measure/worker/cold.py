"""Cold launches: flushing and scrubbing the L2, dithering the queue, the SM clock, and single ones without NVBench."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from cuda.bindings import driver

from gdnbench.machine.gpus import open_nvml
from gdnbench.verify.rotation import Rotation
from gdnbench.workers.cold import BlockingKernel, EmptyKernel, L2Scrubber
from gdnbench.workers.device import CudaDevice
from gdnbench.workers.task import Task

_CACHES = 2  # size of the fill in L2 sizes: with one, the L2's hashing leaves some lines
_MOST_DITHER = 8  # exclusive limit of the empty launches before a sample
RAISE_CLOCK_S = 0.5  # the SM clock rises from 345 MHz idle to 1980 MHz under load within this time on an H200
_SM_CLOCK = 1  # NVML_CLOCK_SM
_RAISED = 0.95  # share of the highest clock


class L2Flush:
    """Fills twice the L2's size, as NVBench does before each cold sample, on the stream current at construction.

    The fill is a memset of the driver, so that activity records distinguish it from every kernel.
    """

    def __init__(self) -> None:
        nbytes = _CACHES * torch.cuda.get_device_properties(0).L2_cache_size
        self._buffer = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self._stream = torch.cuda.current_stream().cuda_stream

    def __call__(self) -> None:
        """Enqueues the fill; raises RuntimeError if the driver refuses."""
        (status,) = driver.cuMemsetD8Async(self._buffer.data_ptr(), 0, self._buffer.numel(), self._stream)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the L2 cannot be flushed: {status.name}")


def raise_clock(clock: SmClock | None = None) -> None:
    """Keeps the GPU busy for `RAISE_CLOCK_S`, or until `clock` reads nearly the highest clock.

    The load is the one between samples: matrix products draw so much power that the clock falls, to 1650 MHz on an
    H200, and launches right after them are measured at that clock.
    """
    flush = L2Flush()
    end = time.monotonic() + RAISE_CLOCK_S
    while time.monotonic() < end and not (clock and clock.is_raised()):
        flush()
        torch.cuda.synchronize()


class DitherAndScrub:
    """Dithers the launch queue before each sample and scrubs the L2 after it, on the stream current at construction.

    The GPU's front end reads commands from a ring, and a launch costs more where its commands straddle some boundary of
    it. Every sample enqueues the same number of commands, so without dithering all samples of a round share one phase,
    and rounds fall into two groups, 0.17 µs apart on an H200 (docs/measuring.md). A random number of empty launches
    makes every round see every phase.
    """

    def __init__(self, seed: int) -> None:
        self._nothing = EmptyKernel("nothing")
        self._random = random.Random(seed)
        self._scrub = L2Scrubber()

    def before(self) -> None:
        """Dithers the launch queue, before a sample."""
        for _ in range(self._random.randrange(_MOST_DITHER)):
            self._nothing.launch()

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Scrubs the L2, after a sample."""
        self._scrub(input_ranges, outputs)


class NothingBetween:
    """Leaves the launch queue and the L2 unchanged between samples, as NVBench alone does."""

    def before(self) -> None:
        """Does nothing."""

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Does nothing."""


def choose_between(task: Task) -> DitherAndScrub | NothingBetween:
    """Returns the actions between the samples of a task."""
    return NothingBetween() if task.plain else DitherAndScrub(task.seed)


class SmClock:
    """Reads the SM clock of the worker's GPU from the driver; readings are meaningful only while the GPU is busy."""

    def __init__(self, stack: ExitStack) -> None:
        nvml = stack.enter_context(open_nvml())
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        handle = nvml.ask("DeviceGetHandleByUUID", uuid) if nvml else None
        self._ask: Callable[[], int | None] = lambda: None
        self._highest_mhz: int | None = None
        if nvml and handle is not None:
            self._ask = lambda: nvml.ask("DeviceGetClockInfo", handle, _SM_CLOCK)
            self._highest_mhz = nvml.ask("DeviceGetMaxClockInfo", handle, _SM_CLOCK)

    def read(self) -> tuple[float, ...]:
        """The current clock in MHz, as `Sampled` takes it; empty if the driver does not report it."""
        mhz = self._ask()
        return () if mhz is None else (float(mhz),)

    def is_raised(self) -> bool:
        """Whether the clock is nearly the GPU's highest; False if the driver does not report it."""
        mhz = self._ask()
        return bool(mhz and self._highest_mhz and mhz >= _RAISED * self._highest_mhz)


class ColdLaunches:
    """Times launches as NVBench and `nvbench.py` do, event to event, on a device whose stream is current.

    The L2 is flushed, and a blocking kernel holds the stream until the host has enqueued the whole launch.
    """

    def __init__(self, device: CudaDevice, seed: int) -> None:
        self._stream = device.stream
        self._flush = L2Flush()
        self._blocking = BlockingKernel()
        self._between = DitherAndScrub(seed)
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def raise_clock(self) -> None:
        """Keeps the GPU busy until its clock has risen."""
        with ExitStack() as stack:
            raise_clock(SmClock(stack))

    def time_us(self, rotation: Rotation) -> float:
        """Launches a case on its next placement and returns the time in µs; releases the GPU if the launch raises."""
        placement = rotation.next_placement()
        self._flush()
        self._blocking.enqueue()
        try:
            self._between.before()
            self._begin.record(self._stream)
            outputs = placement.run()
            self._end.record(self._stream)
        finally:
            self._blocking.release()
        rotation.keep(placement, outputs)
        self._between.after(placement.input_ranges, outputs)
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e3
