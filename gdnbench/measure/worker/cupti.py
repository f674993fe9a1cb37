"""Kernel times recorded by the hardware through CUPTI, from the first block's start to the last block's end.

The time includes no launch latency. A blocking kernel holds the GPU until a sample is enqueued; otherwise the time of a
case with several kernels would include a slow host between them. The samples are made as NVBench's: flushed, placement
after placement, dithered, scrubbed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.store.journal import EventChannel, Refused, Sampled, StepBegun
from gdnbench.verify.rotation import Rotation
from gdnbench.workers import launched
from gdnbench.workers.cold import OWN_PREFIX, BlockingKernel, EmptyKernel, L2Flush, SmClock, choose_between
from gdnbench.workers.device import BeginStep, CudaDevice, WrongWhenTimedError
from gdnbench.workers.task import WARM_UPS, Task

COLLECT_STEPS = 4  # steps' time for reading a round's records, which are of all cases


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
    for position, ids in enumerate(task.order):
        rounds.measure(position, ids)


@dataclass(eq=False)
class _Rounds:
    """Rounds of all cases; a round's records are read at its end, since starting a recorder takes long."""

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
        self._case, self._end, self._checks = map(EmptyKernel, (launched.CASE, launched.END, launched.CHECKS))
        self._recorder = launched.ActivityRecorder()

    def find_unseen(self) -> list[str]:
        """Which of a kernel and a fill the recorder misses; its first start also loads its libraries."""
        self._recorder.start()
        self._case.launch()
        self._flush()
        seen = {activity.name for activity in self._recorder.stop()}
        return [
            what for what, name in (("kernel", OWN_PREFIX + launched.CASE), ("fill", launched.FILL)) if name not in seen
        ]

    def measure(self, position: int, ids: tuple[str, ...]) -> None:
        number = self.task.round_number(position)
        sm_mhz, checked = {}, {}
        ran_python = False
        self._recorder.start()
        for case_id in ids:
            self.begin(StepBegun(case_id, "measure", self.task.step_limit_s), check=ran_python)
            ran_python = self.rotations[case_id].runs_python
            timed, is_last = self.task.samples[case_id], self.task.is_last(position)
            self.rotations[case_id].open(position, number, is_last=is_last, timed=timed)
            sm_mhz[case_id], checked[case_id] = self._launch(case_id)
        self.begin(StepBegun("", "collect records", COLLECT_STEPS * self.task.step_limit_s))
        cases = launched.split_cases(self._recorder.stop(), OWN_PREFIX)
        if len(cases) != len(ids):
            raise RuntimeError(f"CUPTI recorded {len(cases)} of {len(ids)} cases in round {number}")
        for case_id, activities in zip(ids, cases, strict=True):
            self.begin(StepBegun(case_id, "read records", self.task.step_limit_s), check=False)
            launches = launched.split_launches(activities, OWN_PREFIX)[self._cold_warm_ups(case_id) :]
            if reason := launched.deviation(launches, self.task.launched.get(case_id, ())):
                raise WrongWhenTimedError(reason)
            times_us = launched.launch_times_us(launches, self.task.samples[case_id])
            visited = self.rotations[case_id].visited(self.task.samples[case_id])
            inputs, outputs = visited if len(times_us) == self.task.samples[case_id] else ((), ())
            sampled = Sampled(
                number,
                case_id,
                times_us,
                sm_mhz[case_id],
                placements=inputs,
                output_placements=outputs,
                checked=checked[case_id],
                functions_us=launched.function_times_us(launches),
            )
            self.channel.send(sampled)

    def _launch(self, case_id: str) -> tuple[tuple[float, ...], int]:
        """Enqueues a case's round; returns the SM clock meanwhile and the number of checked launches.

        A lap comes first that is neither recorded nor held back for the host, which costs a fraction of what cold
        launches do; kernel times show no trace of it (`benchmarks/laps.csv`), as NVBench's stream times would.
        """
        rotation = self.rotations[case_id]
        rotation.warm_up(self._flush, self._between.after)
        self._case.launch()
        has_gaps = len(self.task.launched.get(case_id, ("", ""))) > 1
        for _ in range(self._cold_warm_ups(case_id) + self.task.samples[case_id]):
            if has_gaps:  # of launches, which a dithered queue makes longer or shorter; a lone kernel has none
                self._between.before()
            self._blocking.enqueue()
            self._flush()
            placement = rotation.next_placement()
            outputs = placement.run()
            self._end.launch()
            self._blocking.release()
            self._between.after(placement.ranges, rotation.keep(placement, outputs))
            rotation.renew(placement)
        sm_mhz = self.sm_clock.read()
        self.device.synchronize()
        self._checks.launch()
        return sm_mhz, rotation.judge()

    def _cold_warm_ups(self, case_id: str) -> int:
        return WARM_UPS - len(self.rotations[case_id].placements)
