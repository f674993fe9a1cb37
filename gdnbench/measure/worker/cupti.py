"""Kernel times recorded by the hardware through CUPTI, from the first block's start to the last block's end.

The time includes no launch latency. A blocking kernel holds the GPU until a sample is enqueued; otherwise the time of a
case with several kernels would include a slow host between them. The samples are made as NVBench's: flushed, placement
after placement, dithered, scrubbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gdnbench.store.journal import EventChannel, Refused, Sampled, StepBegun
from gdnbench.verify.rotation import Rotation
from gdnbench.workers.activities import (
    CASE,
    CHECKS,
    END,
    FILL,
    ActivityRecorder,
    launch_times_us,
    split_cases,
    split_launches,
)
from gdnbench.workers.cold import OWN_PREFIX, BlockingKernel, EmptyKernel, L2Flush, SmClock, choose_between
from gdnbench.workers.device import BeginStep, CudaDevice, WrongWhenTimedError
from gdnbench.workers.launched import deviation, function_times_us
from gdnbench.workers.task import WARM_UPS, Task

COLLECT_STEPS = 4  # steps' time for reading a recording, which is of all cases
OWN_LAUNCHES = 8  # of gdnbench's own, and fills, beside a case's at each of its launches
MOST_RECORDED = 100_000
"""Most launches of a recording of several rounds: torch's profiler gives up at records of 128 MB, some 500,000."""


def measure(
    task: Task,
    channel: EventChannel,
    begin: BeginStep,
    device: CudaDevice,
    rotations: dict[str, Rotation],
    sm_clock: SmClock,
) -> None:
    """Measures every round of the task and sends each as soon as its records are read; Refused if there are none."""
    rounds = _Rounds(task, channel, begin, device, rotations, sm_clock)
    if unseen := rounds.find_unseen():
        message = f"CUPTI does not record here: no {' and no '.join(unseen)} of gdnbench's own"
        channel.send(Refused(message, "detach any other profiler, and see `gdnbench doctor`"))
        return
    for positions in rounds.recordings():
        rounds.measure(positions)


@dataclass(eq=False)
class _Rounds:
    """Rounds of all cases; the records of several are read at their end, since a recorder takes long to start."""

    task: Task
    channel: EventChannel
    begin: BeginStep
    device: CudaDevice
    rotations: dict[str, Rotation]
    sm_clock: SmClock

    def __post_init__(self) -> None:
        self._flush = L2Flush()
        self._between = choose_between(self.task)
        self._blocking = BlockingKernel()
        self._case, self._end, self._checks = EmptyKernel(CASE), EmptyKernel(END), EmptyKernel(CHECKS)
        self._recorder = ActivityRecorder()

    def find_unseen(self) -> list[str]:
        """Which of a kernel and a fill the recorder misses; its first start also loads its libraries."""
        self._recorder.start()
        self._case.launch()
        self._flush()
        seen = {activity.name for activity in self._recorder.stop()}
        return [what for what, name in (("kernel", OWN_PREFIX + CASE), ("fill", FILL)) if name not in seen]

    def recordings(self) -> list[range]:
        """Positions of the rounds of each recording: as many as `MOST_RECORDED` allows, or one."""
        launches = {id_: OWN_LAUNCHES + len(self.task.launched.get(id_, ())) for id_ in self.task.samples}
        recorded = sum((WARM_UPS + self.task.samples[id_]) * launches[id_] for id_ in self.task.order[0])
        rounds, step = range(len(self.task.order)), max(1, MOST_RECORDED // recorded)
        return [rounds[first : first + step] for first in rounds[::step]]

    def measure(self, positions: Sequence[int]) -> None:
        """Measures the rounds at some positions in one recording, and sends them."""
        self._recorder.start()
        unread = [self._launch(position, case_id) for position in positions for case_id in self.task.order[position]]
        self.begin(StepBegun("", "collect records", COLLECT_STEPS * self.task.step_limit_s))
        cases = split_cases(self._recorder.stop(), OWN_PREFIX)
        if len(cases) != len(unread):
            raise RuntimeError(f"CUPTI recorded {len(cases)} of {len(unread)} cases of {len(positions)} rounds")
        for sampled, activities in zip(unread, cases, strict=True):
            self.begin(StepBegun(sampled.case, "read records", self.task.step_limit_s))
            launches = split_launches(activities, OWN_PREFIX)[WARM_UPS:]
            if reason := deviation(launches, self.task.launched.get(sampled.case, ())):
                raise WrongWhenTimedError(reason)
            times_us = launch_times_us(launches, self.task.samples[sampled.case])
            read = replace(sampled, times_us=times_us, functions_us=function_times_us(launches))
            is_whole = len(times_us) == self.task.samples[sampled.case]
            self.channel.send(read if is_whole else replace(read, placements=(), output_placements=()))

    def _launch(self, position: int, case_id: str) -> Sampled:
        """Enqueues a case's round, and checks some of its launches; the times are still to be read."""
        self.begin(StepBegun(case_id, "measure", self.task.step_limit_s))
        rotation, number = self.rotations[case_id], self.task.round_number(position)
        rotation.open(position, number, is_last=self.task.is_last(position))
        self._case.launch()
        has_gaps = len(self.task.launched.get(case_id, ("", ""))) > 1
        for _ in range(WARM_UPS + self.task.samples[case_id]):
            if has_gaps:  # of launches, which a dithered queue makes longer or shorter; a lone kernel has none
                self._between.before()
            self._blocking.enqueue()
            self._flush()
            placement = rotation.next_placement()
            outputs = placement.run()
            self._end.launch()
            self._blocking.release()
            rotation.keep(placement, outputs)
            self._between.after(placement.input_ranges, outputs)
            rotation.renew(placement)
        sm_mhz = self.sm_clock.read()
        self.device.synchronize()
        self._checks.launch()
        checked = rotation.judge()
        inputs, own = rotation.visited(self.task.samples[case_id])
        return Sampled(number, case_id, (), sm_mhz, placements=inputs, output_placements=own, checked=checked)
