"""A cold timer for a few launchers side by side: what instrumentation costs shows beside the kernel without it.

Like NVBench's cold measurement it overwrites the L2 before each launch, keeps the GPU busy until the launch and its
events are queued, so that no host time is in between, and reads CUDA events. Unlike `gdnbench run` it has no rounds,
no control and no interval: it is for differences of many per cent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from statistics import median

import torch

from gdnbench.bench.worker.flush import Flush
from gdnbench.bench.worker.spin import spin
from gdnbench.launch import Launcher

_LEAST_HOLD_S = 60e-6  # to enqueue two events and a launch
_CYCLES_PER_S = 3e9  # above any GPU's SM clock, so that what is held for so many cycles is held for long enough
_TRIALS = 5


def time_cold(arms: Mapping[str, Sequence[Launcher]], samples: int, seed: int) -> dict[str, list[float]]:
    """Times launchers cold, one sample of each in turn, in an order shuffled anew each time.

    Args:
        arms: by name, a launcher for each of some placements of its tensors, taken in turn.
        samples: timed launches of each.
        seed: of the order.

    Returns:
        Times in microseconds, by name.
    """
    stream = torch.cuda.current_stream()
    flush = Flush()
    order = random.Random(seed)
    names = list(arms)
    pairs: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in names}
    hold = _hold_cycles([runs[0] for runs in arms.values()])
    spin()
    for sample in range(samples):
        order.shuffle(names)
        for name in names:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            run = arms[name][sample % len(arms[name])]
            flush()
            torch.cuda._sleep(hold)  # type: ignore[no-untyped-call]
            begin.record(stream)
            run()
            end.record(stream)
            pairs[name].append((begin, end))
        stream.synchronize()
    return {name: [begin.elapsed_time(end) * 1e3 for begin, end in timed] for name, timed in pairs.items()}


def _hold_cycles(runs: Sequence[Launcher]) -> int:
    """For how long to hold the GPU back: twice what the slowest launcher takes on the host; some launch many times."""
    longest = max(_host_s(run) for run in runs)
    return int(max(_LEAST_HOLD_S, 2 * longest) * _CYCLES_PER_S)


def _host_s(run: Launcher) -> float:
    """Seconds until the launcher returns; the median of some trials."""
    times = []
    for _ in range(_TRIALS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return median(times)
