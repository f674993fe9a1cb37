"""Times of launches within a CUDA graph: no host, and launches that follow each other as nodes do.

A graph holds flush and launch in turn, over all placements; another holds the flushes alone. What the first takes
longer is the launches' time, and with it what a kernel node adds between two others.
"""

from __future__ import annotations

import gc
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from gdnbench.bench.events import Channel, Sampled, Step
from gdnbench.bench.task import Task
from gdnbench.bench.worker.between import Between, Nothing
from gdnbench.bench.worker.blame import blaming
from gdnbench.bench.worker.bound import bind_cases
from gdnbench.bench.worker.capture import capture
from gdnbench.bench.worker.device import CudaDevice
from gdnbench.bench.worker.flush import Flush
from gdnbench.bench.worker.per_launch import LAUNCHES, per_launch_us, replays_of
from gdnbench.bench.worker.rotation import Rotation
from gdnbench.bench.worker.scrub import list_ranges
from gdnbench.bench.worker.sm_clock import SmClock
from gdnbench.bench.worker.spin import spin

Timed = tuple[torch.cuda.Event, torch.cuda.Event]


def measure_all(task: Task, channel: Channel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    device = CudaDevice()
    with ExitStack() as stack, device.current(), blaming(channel, device, task.roots) as begin:
        rotations = bind_cases(task, begin, device)
        begin(Step("", "capture the flush", task.step_limit_s))
        replays = _Replays(device, Nothing() if task.plain else Between(task.seed))
        for case_id, rotation in rotations.items():
            begin(Step(case_id, "capture", task.step_limit_s))
            replays.add(case_id, rotation)
        begin(Step("", "raise the clocks", task.step_limit_s))
        sm_clock = SmClock(stack)
        spin()
        gc.disable()
        for position, ids in enumerate(task.order):
            for case_id in ids:
                begin(Step(case_id, "measure", task.step_limit_s))
                timed = replays.enqueue(case_id, replays_of(task.samples[case_id]))
                sm_mhz = sm_clock.read()
                device.synchronize()
                times_us = per_launch_us(*([_elapsed_us(*pair) for pair in pairs] for pairs in timed))
                channel.send(Sampled(task.round_number(position), case_id, times_us, sm_mhz))


@dataclass(frozen=True)
class _Loop:
    """A case's graph, and the ranges that its launches read and write, for the scrubber."""

    graph: torch.cuda.CUDAGraph
    ranges: torch.Tensor


class _Replays:
    """The graphs of all cases, and that of the flushes alone."""

    def __init__(self, device: CudaDevice, between: Between | Nothing) -> None:
        self._device = device
        self._between = between
        self._flush = Flush()
        # Graphs never run at once, so what one allocates may lie where another does.
        self._pool = torch.cuda.graph_pool_handle()
        self._flushes = capture(self._flush_only, strict=False, pool=self._pool).graph
        self._loops: dict[str, _Loop] = {}

    def _flush_only(self) -> tuple[torch.Tensor, ...]:
        for _ in range(LAUNCHES):
            self._flush()
        return ()

    def add(self, case_id: str, rotation: Rotation) -> None:
        """Captures a case's launches, each on the next placement."""
        turns = [rotation.turn() for _ in range(LAUNCHES)]
        # As many as there are placements: a kernel that allocates its outputs then has as many for those.
        kept: deque[tuple[torch.Tensor, ...]] = deque(maxlen=len(rotation.turns))

        def flush_and_launch() -> tuple[torch.Tensor, ...]:
            for turn in turns:
                self._flush()
                kept.append(turn.run())
            return tuple(tensor for outputs in kept for tensor in outputs)

        captured = capture(flush_and_launch, strict=False, pool=self._pool)
        ranges = [*(turn.input_ranges for turn in rotation.turns), list_ranges(captured.outputs)]
        self._loops[case_id] = _Loop(captured.graph, torch.cat(ranges))

    def enqueue(self, case_id: str, replays: int) -> tuple[list[Timed], list[Timed]]:
        """Enqueues replays of the case and of the flushes, in turn, and gives the events around each."""
        loop = self._loops[case_id]
        # Untimed, and long enough for the host to run ahead: from here on the GPU never waits for it.
        self._flushes.replay()
        loop.graph.replay()
        cases, flushes = [], []
        for _ in range(replays):
            flushes.append(self._replay(self._flushes))
            cases.append(self._replay(loop.graph))
            self._between.after(loop.ranges, ())
        return cases, flushes

    def _replay(self, graph: torch.cuda.CUDAGraph) -> Timed:
        self._between.before()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record(self._device.stream)
        graph.replay()
        end.record(self._device.stream)
        return start, end


def _elapsed_us(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    return float(start.elapsed_time(end)) * 1e3
