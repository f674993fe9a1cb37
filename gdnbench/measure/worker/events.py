"""Times calls one behind the other between two events, as most people do, to be set beside the other clocks.

Nothing holds the GPU until the host has enqueued them and nothing flushes the L2, so what is read is the longer of the
host's time and the GPU's for a call, on tensors that the call before has left in the L2.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack

import torch

from gdnbench.measure.worker.graph import FIRST_WINDOW, replays_of
from gdnbench.store.journal import EventChannel, Sampled, StepBegun
from gdnbench.verify.rotation import Rotation, bind_cases
from gdnbench.workers.cold import SmClock, raise_clock
from gdnbench.workers.device import CudaDevice, report_failure
from gdnbench.workers.placement import Placement
from gdnbench.workers.task import Task

CALLS = 100  # between two events
FEWEST = 10  # times of a round, each of `CALLS` calls


def loops_of(samples: int) -> int:
    """Number of timed loops of a round, from the samples of a timer of single launches."""
    return max(FEWEST, replays_of(samples))


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    device = CudaDevice()
    with ExitStack() as stack, device.current(), report_failure(channel, device, task.roots) as begin:
        rotations = bind_cases(task, begin, device, lambda task, case_id: (0, loops_of(task.samples[case_id])))
        begin(StepBegun("", "raise the clocks", task.step_limit_s))
        sm_clock = SmClock(stack)
        raise_clock(sm_clock)
        gc.disable()
        for position, ids in enumerate(task.order):
            for case_id in ids:
                begin(StepBegun(case_id, "measure", task.step_limit_s))
                rotation = rotations[case_id]
                rotation.open(FIRST_WINDOW, task.round_number(position), is_last=task.is_last(position))
                times_us = tuple(_time_us(device, rotation) for _ in range(loops_of(task.samples[case_id])))
                sm_mhz = sm_clock.read()
                checked = rotation.judge()
                channel.send(Sampled(task.round_number(position), case_id, times_us, sm_mhz, checked=checked))


def _time_us(device: CudaDevice, rotation: Rotation) -> float:
    """The time of a call in µs: `CALLS` at one placement; in place one at each, for the next would find its state."""
    placement = rotation.next_placement()
    visited = rotation.placements if rotation.is_in_place else (placement,)
    calls = visited if rotation.is_in_place else (placement,) * CALLS
    device.synchronize()
    time_us, outputs = _timed(device, calls)
    rotation.keep(visited[-1], outputs)
    for each in visited:
        rotation.renew(each)
    return time_us


def _timed(device: CudaDevice, calls: tuple[Placement, ...]) -> tuple[float, tuple[torch.Tensor, ...]]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    outputs: tuple[torch.Tensor, ...] = ()
    start.record(device.stream)
    for placement in calls:
        outputs = placement.run()
    end.record(device.stream)
    device.synchronize()
    return round(start.elapsed_time(end) * 1e3 / len(calls), 4), outputs
