"""Times single cold launches without NVBench, which can run only once in a process."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from gdnbench.measuring.worker.cold import DitherAndScrub, L2Flush, SmClock, raise_clock
from gdnbench.measuring.worker.device import CudaDevice
from gdnbench.measuring.worker.own_kernels import BlockingKernel
from gdnbench.measuring.worker.placement import Rotation


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
