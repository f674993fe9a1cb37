"""Times calls one behind the other between two events, as most people do, to be set beside the other clocks.

Nothing holds the GPU until the host has enqueued them and nothing flushes the L2, so what is read is the longer of the
host's time and the GPU's for a call, on tensors that the call before has left in the L2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gdnbench.measure.worker.graph import TimeRound, measure_rounds, replays_of
from gdnbench.store.journal import EventChannel
from gdnbench.verify.rotation import Rotation
from gdnbench.workers.device import BeginStep, CudaDevice
from gdnbench.workers.task import Task

CALLS = 100  # between two events
FEWEST = 10  # loops of a round


def loops_of(samples: int) -> int:
    """Number of timed loops of a round, from the samples of a timer of single launches."""
    return max(FEWEST, replays_of(samples))


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    measure_rounds(task, channel, loops_of, _prepare)


def _prepare(task: Task, device: CudaDevice, _begin: BeginStep, rotations: dict[str, Rotation]) -> TimeRound:
    def time_round(case_id: str) -> Callable[[], tuple[float, ...]]:
        loops = range(loops_of(task.samples[case_id]))
        times_us = tuple(_time_us(device, rotations[case_id]) for _ in loops)
        return lambda: times_us

    return time_round


def _time_us(device: CudaDevice, rotation: Rotation) -> float:
    """The time of a call in µs: `CALLS` at one placement; in place one at each, for the next would find its state."""
    visited = rotation.placements if rotation.is_in_place else (rotation.next_placement(),)
    calls = visited if rotation.is_in_place else visited * CALLS
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    outputs: tuple[torch.Tensor, ...] = ()
    device.synchronize()
    start.record(device.stream)
    for placement in calls:
        outputs = placement.run()
    end.record(device.stream)
    device.synchronize()
    rotation.keep(visited[-1], outputs)
    for placement in visited:
        rotation.renew(placement)
    return round(float(start.elapsed_time(end)) * 1e3 / len(calls), 4)
