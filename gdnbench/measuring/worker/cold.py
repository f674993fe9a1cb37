"""What is done around samples: L2 flushed and scrubbed, launch queue dithered, SM clock raised and read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from cuda.bindings import driver

from gdnbench.machine.gpus import open_nvml
from gdnbench.measuring.protocol import Task
from gdnbench.measuring.worker.own_kernels import EmptyKernel, L2Scrubber

_CACHES = 2  # sizes of the L2 that are written: one alone leaves what its hashing happens to spare
_MOST_DITHER = 8  # empty launches before a sample, and one more than there are at most
RAISE_CLOCK_S = 0.5  # the SM clock rises from 345 MHz idle to 1980 MHz under load within this time on an H200
_SM_CLOCK = 1  # NVML_CLOCK_SM
_RAISED = 0.95  # of the highest clock


class L2Flush:
    """Fills twice the L2's size, as NVBench does before each cold sample; on the stream current when it is made.

    The fill is the driver's own, so that activity records tell it from every kernel.
    """

    def __init__(self) -> None:
        nbytes = _CACHES * torch.cuda.get_device_properties(0).L2_cache_size
        self._buffer = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self._stream = torch.cuda.current_stream().cuda_stream

    def __call__(self) -> None:
        """Enqueues the fill.

        Raises:
            RuntimeError: if the driver refuses.
        """
        (status,) = driver.cuMemsetD8Async(self._buffer.data_ptr(), 0, self._buffer.numel(), self._stream)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the L2 cannot be flushed: {status.name}")


def raise_clock(clock: SmClock | None = None) -> None:
    """Keeps the GPU busy until its clock has risen: an idle one runs at a fraction of it.

    With the load that comes between samples: matrix products draw so much power that the clock falls, to 1650 MHz on an
    H200, and what is launched right after them is measured at that.

    Args:
        clock: ends it as soon as this reads nearly the highest clock; without one it takes `RAISE_CLOCK_S`.
    """
    flush = L2Flush()
    end = time.monotonic() + RAISE_CLOCK_S
    while time.monotonic() < end and not (clock and clock.is_raised()):
        flush()
        torch.cuda.synchronize()


class DitherAndScrub:
    """Dithers the launch queue before each sample and scrubs the L2 after it, on the stream current when it is made.

    Dithering: the GPU's front end reads commands from a ring, and a launch costs more where its commands
    straddle some boundary of it. Every sample enqueues the same number of commands, so all samples of a round would
    share one phase, and rounds would fall into two groups, 0.17 µs apart on an H200 (docs/measuring.md). A random
    number of empty launches lets every round see every phase.
    """

    def __init__(self, seed: int) -> None:
        self._nothing = EmptyKernel("nothing")
        self._random = random.Random(seed)
        self._scrub = L2Scrubber()

    def before(self) -> None:
        """Before a sample."""
        for _ in range(self._random.randrange(_MOST_DITHER)):
            self._nothing.launch()

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """After a sample."""
        self._scrub(input_ranges, outputs)


class NothingBetween:
    """Leaves the launch queue and the L2 as they are, as NVBench alone does."""

    def before(self) -> None:
        """Nothing."""

    def after(self, input_ranges: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Nothing."""


def choose_between(task: Task) -> DitherAndScrub | NothingBetween:
    """What happens between the samples of a task."""
    return NothingBetween() if task.plain else DitherAndScrub(task.seed)


class SmClock:
    """Reads the SM clock of the worker's GPU from the driver; a reading is worth something while the GPU is busy."""

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
        """The clock now in MHz, as `Sampled` takes it: empty where the driver does not say."""
        mhz = self._ask()
        return () if mhz is None else (float(mhz),)

    def is_raised(self) -> bool:
        """Whether it is nearly the highest that the GPU has now; no where the driver does not say."""
        mhz = self._ask()
        return bool(mhz and self._highest_mhz and mhz >= _RAISED * self._highest_mhz)
