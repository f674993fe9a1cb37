"""The SM clock, for timers that do not read it themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import torch

from gdnbench.machine.nvml import open_nvml

_SM_CLOCK = 1  # NVML_CLOCK_SM


class SmClock:
    """Reads the SM clock of the worker's GPU from the driver; a reading is worth something while the GPU is busy."""

    def __init__(self, stack: ExitStack) -> None:
        nvml = stack.enter_context(open_nvml())
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        handle = nvml.ask("DeviceGetHandleByUUID", uuid) if nvml else None
        self._ask: Callable[[], int | None] = lambda: None
        if nvml and handle is not None:
            self._ask = lambda: nvml.ask("DeviceGetClockInfo", handle, _SM_CLOCK)

    def read(self) -> tuple[float, ...]:
        """The clock now in MHz, as `Sampled` takes it: empty where the driver does not say."""
        mhz = self._ask()
        return () if mhz is None else (float(mhz),)
