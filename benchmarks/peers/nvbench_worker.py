"""A worker process that is an NVBench benchmark: `python -m benchmarks.peers.nvbench_worker TASK`.

NVBench's own options hold, but for its timeout. Its batched measurement is left out, which its compare scripts do not
read.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cuda import bench

from gdnbench.process.worker import die_with_parent
from gdnbench.workers.device import CudaDevice

from .bound import Call, Kernels
from .peers import NVBENCH_TIMEOUT_S
from .task import SEPARATOR, Task


class _StreamHandle:
    """A torch stream in the form that NVBench takes."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._stream.cuda_stream)


def _benchmark(device: CudaDevice, name: str, call: Call) -> Callable[[Any], None]:
    def launch(_launch: Any) -> None:
        call()

    def benchmark(state: Any) -> None:
        state.set_stream(_StreamHandle(device.stream))
        with device.current():
            state.exec(launch, batched=False)

    benchmark.__name__ = name
    return benchmark


def main(path: Path) -> None:
    """Measures every kernel once, and leaves NVBench's JSON with its samples beside it."""
    die_with_parent()
    task = Task.read(path)
    order = random.Random(task.seed)
    device, kernels = CudaDevice(), Kernels(task)
    with device.current():
        for workload in order.sample(task.workloads, len(task.workloads)):
            calls = kernels.bind(workload)
            for name in order.sample(list(calls), len(calls)):
                benchmark = _benchmark(device, f"{workload.label}{SEPARATOR}{name}", calls[name])
                bench.register(benchmark).set_name(benchmark.__name__)
        options = ("-q", "-d", "0", "--timeout", str(NVBENCH_TIMEOUT_S), "--jsonbin", task.record)
        bench.run_all_benchmarks(["peers", *options])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
