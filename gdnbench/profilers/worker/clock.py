"""The SM clock, measured: what turns cycles into microseconds."""

from __future__ import annotations

import torch

_CYCLES = 20_000_000  # 10 ms at 1.98 GHz, so that the 3 µs of a launch are 0.03 %


def measure_sm_mhz() -> float:
    """The SM clock now, in MHz: CUDA events around a kernel that waits for a known number of cycles of it.

    torch's `_sleep` returns once `clock64()` has advanced by as many cycles as it is given. To be comparable it is
    called when the GPU is as busy as it was for what is to be converted: an idle GPU lowers its clock.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(1)  # type: ignore[no-untyped-call]  # its code is loaded at the first launch
    begin.record()
    torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]
    end.record()
    end.synchronize()
    return _CYCLES / (float(begin.elapsed_time(end)) * 1e3)
