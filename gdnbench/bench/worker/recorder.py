"""Two ways to CUPTI's activity records: cupti-python where it is installed, else torch's profiler."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from gdnbench.bench.worker.records import FILL, Record

_BUFFER_BYTES = 8 << 20  # what CUPTI's manual recommends: between 1 and 10 MB


class Recorder(Protocol):
    """Records what the GPU does between a start and a stop."""

    def start(self) -> None:
        """Begins to record."""

    def stop(self) -> list[Record]:
        """Waits for the GPU and gives what it did since the start, in any order."""


def choose_recorder() -> Recorder:
    """The recorder that this installation has."""
    return CuptiRecorder() if find_spec("cupti") else TorchRecorder()


class TorchRecorder:
    """Through torch's profiler, which carries CUPTI with it."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self) -> None:
        """Begins to record."""
        self._profile = profile(activities=[ProfilerActivity.CUDA])
        self._profile.start()

    def stop(self) -> list[Record]:
        """Everything that a GPU did; the profiler lists what the host did, too."""
        torch.cuda.synchronize()
        self._profile.stop()
        return [
            Record(event.name(), event.start_ns(), event.end_ns())
            for event in self._profile.profiler.kineto_results.events()
            if event.device_type() == DeviceType.CUDA
        ]


class CuptiRecorder:
    """Through cupti-python. CUPTI hands over buffers as they fill, and on demand."""

    def __init__(self) -> None:
        from cupti import cupti

        self._cupti = cupti
        self._records: list[Record] = []
        kinds = cupti.ActivityKind
        self._fill = kinds.MEMSET
        self._kinds = (kinds.CONCURRENT_KERNEL, kinds.MEMSET, kinds.MEMCPY)
        self._callbacks = (lambda: (_BUFFER_BYTES, 0)), self._take  # CUPTI calls them for as long as the process lives
        cupti.activity_register_callbacks(*self._callbacks)

    def start(self) -> None:
        """Begins to record."""
        for kind in self._kinds:
            self._cupti.activity_enable(kind)

    def stop(self) -> list[Record]:
        """Everything that a GPU did."""
        torch.cuda.synchronize()
        self._cupti.activity_flush_all(1)
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        records, self._records = self._records, []
        return records

    def _take(self, activities: list[Any]) -> None:
        """Copies what is needed: the buffer behind the activities is CUPTI's again afterwards."""
        for activity in activities:
            name = FILL if activity.kind == self._fill else getattr(activity, "name", "")
            self._records.append(Record(name, activity.start, activity.end))
