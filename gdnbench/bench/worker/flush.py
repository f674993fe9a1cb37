"""Empties the L2 of everything but zeros: what NVBench does before each cold sample, for the other clocks."""

from __future__ import annotations

import torch
from cuda.bindings import driver

_CACHES = 2  # sizes of the L2 that are written: one alone leaves what its hashing happens to spare


class Flush:
    """Fills twice the L2's size, on the stream current when it is made.

    The fill is the driver's own, so that a record of what the GPU did tells it from every kernel.
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
