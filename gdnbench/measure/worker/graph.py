"""Times launches within a CUDA graph, without the host, where nodes follow each other.

One graph holds flush and launch in turn, over all placements; another holds the flushes alone. The difference is the
launches' time, including what a kernel node adds between two others.
"""

from __future__ import annotations

import gc
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from gdnbench.stats.estimators import trimmed_mean
from gdnbench.store.journal import EventChannel, Sampled, StepBegun
from gdnbench.store.settings import GPU_TRIM
from gdnbench.verify.rotation import Rotation, bind_cases
from gdnbench.workers.cold import DitherAndScrub, L2Flush, NothingBetween, SmClock, choose_between, raise_clock
from gdnbench.workers.device import BeginStep, CudaDevice, capture, report_failure
from gdnbench.workers.placement import Placement, list_ranges
from gdnbench.workers.task import Task

LAUNCHES_PER_GRAPH = 32  # one launch per placement of a full window; one tick of the events is 1 ns a launch
FEWEST_REPLAYS = 6
SAMPLES_PER_REPLAY = 16  # a replay, which times 32 launches, counts as 16 samples
FIRST_WINDOW = 0  # a graph's launches keep the placements at which they were captured


def replays_of(samples: int) -> int:
    """Number of timed replays in a round, from the samples of a timer of single launches."""
    return max(FEWEST_REPLAYS, samples // SAMPLES_PER_REPLAY)


def launches_per_graph(placements: int, *, is_in_place: bool) -> int:
    """Launches of a case in its graph; in place, one per placement, since the next would find its state."""
    return min(LAUNCHES_PER_GRAPH, placements) if is_in_place else LAUNCHES_PER_GRAPH


def per_launch_us(
    replays_us: Sequence[float], flushes_us: Sequence[float], launches: int = LAUNCHES_PER_GRAPH
) -> tuple[float, ...]:
    """Time of one launch by each replay of a round, µs; RuntimeError if launches take no time beside the flushes.

    `replays_us` are of flush and launch, `launches` times each; `flushes_us` of as many flushes alone.
    """
    flush_us = median(flushes_us)
    times_us = tuple(round((replay_us - flush_us) / launches, 4) for replay_us in replays_us)
    if trimmed_mean(np.asarray(times_us), GPU_TRIM) <= 0:
        raise RuntimeError("a graph of its launches replays no slower than the flushes between them alone")
    return times_us


Timed = tuple[torch.cuda.Event, torch.cuda.Event]


TimeRound = Callable[[str], Callable[[], tuple[float, ...]]]
"""Enqueues a round of a case, by id; returns a function that gives its times in µs once the GPU is done."""


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    measure_rounds(task, channel, replays_of, _capture_all)


def measure_rounds(
    task: Task,
    channel: EventChannel,
    timed_of: Callable[[int], int],
    prepare: Callable[[Task, CudaDevice, BeginStep, dict[str, Rotation]], TimeRound],
) -> None:
    """Measures every round at the placements of the first window; `timed_of` makes times of samples of single launches.

    `prepare` is called once, when the cases are bound.
    """
    device = CudaDevice()
    with ExitStack() as stack, device.current(), report_failure(channel, device, task.roots) as begin:
        rotations = bind_cases(task, begin, device, lambda task, case_id: (0, timed_of(task.samples[case_id])))
        time_round = prepare(task, device, begin, rotations)
        begin(StepBegun("", "raise the clocks", task.step_limit_s))
        sm_clock = SmClock(stack)
        raise_clock(sm_clock)
        gc.disable()
        for position, ids in enumerate(task.order):
            number = task.round_number(position)
            for case_id in ids:
                begin(StepBegun(case_id, "measure", task.step_limit_s))
                rotations[case_id].open(FIRST_WINDOW, number, is_last=task.is_last(position))
                read_times = time_round(case_id)
                sm_mhz = sm_clock.read()
                device.synchronize()
                checked = rotations[case_id].judge()
                channel.send(Sampled(number, case_id, read_times(), sm_mhz, checked=checked))


def _capture_all(task: Task, device: CudaDevice, begin: BeginStep, rotations: dict[str, Rotation]) -> TimeRound:
    begin(StepBegun("", "capture the flush", task.step_limit_s))
    replays = _Replays(device, choose_between(task))
    for case_id, rotation in rotations.items():
        begin(StepBegun(case_id, "capture", task.step_limit_s))
        replays.add(case_id, rotation)

    def time_round(case_id: str) -> Callable[[], tuple[float, ...]]:
        cases, flushes = replays.enqueue(case_id, replays_of(task.samples[case_id]))
        return lambda: per_launch_us(_times_us(cases), _times_us(flushes), replays.launches(case_id))

    return time_round


def _times_us(pairs: Sequence[Timed]) -> list[float]:
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


@dataclass(frozen=True)
class _Loop:
    """A case's graph of flush and launch, `count` times, and one of as many flushes alone.

    `ranges` are for the scrubber; `launches` has the last launch at each placement, with its outputs.
    """

    graph: torch.cuda.CUDAGraph
    flushes: torch.cuda.CUDAGraph
    ranges: torch.Tensor
    rotation: Rotation
    count: int
    launches: tuple[tuple[Placement, tuple[torch.Tensor, ...]], ...]


class _Replays:
    def __init__(self, device: CudaDevice, between: DitherAndScrub | NothingBetween) -> None:
        self._device = device
        self._between = between
        self._flush = L2Flush()
        # Graphs never run at once, so they may share memory.
        self._pool = torch.cuda.graph_pool_handle()
        self._flushes: dict[int, torch.cuda.CUDAGraph] = {}
        self._loops: dict[str, _Loop] = {}
        self._random = random.Random()  # from the system's entropy: a kernel must not foresee it

    def _flushes_alone(self, count: int) -> torch.cuda.CUDAGraph:
        def flush_only() -> tuple[torch.Tensor, ...]:
            for _ in range(count):
                self._flush()
            return ()

        if count not in self._flushes:
            self._flushes[count] = capture(flush_only, strict=False, pool=self._pool).graph
        return self._flushes[count]

    def add(self, case_id: str, rotation: Rotation) -> None:
        """Captures a case's launches, each on the next placement."""
        launches = launches_per_graph(len(rotation.placements), is_in_place=rotation.is_in_place)
        placements = [rotation.next_placement() for _ in range(launches)]
        # As many as there are placements: a kernel that allocates its outputs then has as many placements for them.
        held: deque[tuple[Placement, tuple[torch.Tensor, ...]]] = deque(maxlen=len(rotation.placements))

        def flush_and_launch() -> tuple[torch.Tensor, ...]:
            for placement in placements:
                self._flush()
                held.append((placement, placement.run()))
            return tuple(tensor for _, outputs in held for tensor in outputs)

        captured = capture(flush_and_launch, strict=False, pool=self._pool)
        ranges = [*(placement.ranges for placement in rotation.placements), list_ranges(captured.outputs)]
        flushes = self._flushes_alone(launches)
        self._loops[case_id] = _Loop(captured.graph, flushes, torch.cat(ranges), rotation, launches, tuple(held))

    def enqueue(self, case_id: str, replays: int) -> tuple[list[Timed], list[Timed]]:
        """Enqueues replays of the case and of the flushes, in turn, and returns the events around each."""
        loop = self._loops[case_id]
        # Untimed, and long enough for the host to get ahead, so that the GPU never waits for it.
        loop.flushes.replay()
        loop.graph.replay()
        if loop.rotation.is_in_place:
            self._renew(loop)
        cases, flushes = [], []
        for _ in range(replays):
            flushes.append(self._replay(loop.flushes))
            cases.append(self._replay(loop.graph))
            placement, outputs = self._random.choice(loop.launches)
            loop.rotation.keep(placement, outputs)  # may be checked
            self._between.after(loop.ranges, ())
            self._renew(loop)
        return cases, flushes

    def launches(self, case_id: str) -> int:
        return self._loops[case_id].count

    def _renew(self, loop: _Loop) -> None:
        for placement, _ in loop.launches:
            loop.rotation.renew(placement)

    def _replay(self, graph: torch.cuda.CUDAGraph) -> Timed:
        self._between.before()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record(self._device.stream)
        graph.replay()
        end.record(self._device.stream)
        return start, end
