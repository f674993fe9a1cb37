"""A worker process that calls the functions of other tools once: `python -m benchmarks.peers.functions_worker TASK`.

One process is one trial of every function, in an order of its own. No clock is raised first and nothing is warmed up
but by the tools themselves: their users do neither.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from gdnbench.process.worker import die_with_parent
from gdnbench.workers.device import CudaDevice

from .bound import Call, Kernels
from .task import Answer, Task


def _do_bench(call: Call) -> float:
    """Triton's: mean over 100 ms of samples, each with the L2 overwritten before it; µs."""
    from triton.testing import do_bench

    return float(do_bench(call)) * 1e3


def _do_bench_cudagraph(call: Call) -> float:
    """Triton's: mean over ten replays of a CUDA graph of launches one behind the other, 20 ms long; µs."""
    from triton.testing import do_bench_cudagraph

    _bind_to_capture_stream(call)
    return float(do_bench_cudagraph(call)) * 1e3


def _bind_to_capture_stream(call: Call) -> None:
    """Launches once on the stream that torch captures on, so that nothing is bound during the capture itself."""
    torch.cuda.graph(torch.cuda.CUDAGraph())  # makes the stream, if nothing has yet
    stream = getattr(torch.cuda.graph, "default_capture_stream", None)
    if stream is not None:
        with torch.cuda.stream(stream):
            call()
        torch.cuda.synchronize()


def _bench_gpu_time(call: Call) -> float:
    """FlashInfer's at its defaults: the median of its times, as its benchmarks take it; µs."""
    import numpy as np
    from flashinfer.testing.utils import bench_gpu_time

    return float(np.median(bench_gpu_time(call))) * 1e3


MEASURE: dict[str, Callable[[Call], float]] = {
    "do_bench": _do_bench,
    "do_bench_cudagraph": _do_bench_cudagraph,
    "flashinfer": _bench_gpu_time,
}


def main(path: Path) -> None:
    """Answers for each function as soon as it is done."""
    die_with_parent()
    task = Task.read(path)
    order = random.Random(task.seed)
    device, kernels = CudaDevice(), Kernels(task)
    for peer in order.sample(task.peers, len(task.peers)):
        began = time.perf_counter()
        times_us: dict[str, dict[str, float]] = {}
        error = ""
        try:
            with device.current():
                for workload in order.sample(task.workloads, len(task.workloads)):
                    calls = kernels.bind(workload)
                    names = order.sample(list(calls), len(calls))
                    times_us[workload.label] = {name: MEASURE[peer](calls[name]) for name in names}
        except Exception as raised:
            traceback.print_exc()
            error = f"{type(raised).__name__}: {raised}"
        Answer(peer, time.perf_counter() - began, times_us, error).append(Path(task.record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
