"""Kernel times as the hardware records them, through CUPTI: from the first block's start to the last block's end.

Nothing brackets the launch here, so no launch latency is in the time. The GPU is held back until a sample is enqueued:
else a case of several kernels would be charged for a slow host between them. The samples are made as NVBench's:
flushed, on one placement after the other, dithered, scrubbed.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack

from gdnbench.bench.events import Channel, Refused, Sampled, Step
from gdnbench.bench.task import COLD_WARM_UPS, Task
from gdnbench.bench.worker.between import Between, Nothing
from gdnbench.bench.worker.blame import Begin, blaming
from gdnbench.bench.worker.bound import bind_cases
from gdnbench.bench.worker.device import CudaDevice
from gdnbench.bench.worker.empty import EmptyKernel
from gdnbench.bench.worker.flush import Flush
from gdnbench.bench.worker.hold import Hold
from gdnbench.bench.worker.own import OURS
from gdnbench.bench.worker.recorder import Recorder, choose_recorder
from gdnbench.bench.worker.records import CASE, END, FILL, launch_times_us, split_cases, split_launches
from gdnbench.bench.worker.rotation import Rotation
from gdnbench.bench.worker.sm_clock import SmClock
from gdnbench.bench.worker.spin import spin

COLLECT_STEPS = 4  # reading a round's records takes longer than a step of one case: a round is all cases


def measure_all(task: Task, channel: Channel) -> None:
    """Measures every round of the task and sends each as soon as its records are read."""
    device = CudaDevice()
    with ExitStack() as stack, device.current(), blaming(channel, device, task.roots) as begin:
        rotations = bind_cases(task, begin, device)
        begin(Step("", "raise the clocks", task.step_limit_s))
        spin()
        rounds = _Rounds(task, channel, begin, device, rotations, SmClock(stack))
        unseen = rounds.find_unseen()
        if unseen:
            message = f"CUPTI does not record here: no {' and no '.join(unseen)} of ours"
            channel.send(Refused(message, "detach any other profiler, and see `gdnbench doctor`"))
            return
        gc.disable()
        for position, ids in enumerate(task.order):
            rounds.measure(task.round_number(position), ids)


class _Rounds:
    """Rounds of all cases; the records of a round are read when it is over, for starting a recorder takes long."""

    def __init__(
        self,
        task: Task,
        channel: Channel,
        begin: Begin,
        device: CudaDevice,
        rotations: dict[str, Rotation],
        sm_clock: SmClock,
    ) -> None:
        self._task = task
        self._channel = channel
        self._begin = begin
        self._device = device
        self._rotations = rotations
        self._sm_clock = sm_clock
        self._flush = Flush()
        self._between = Nothing() if task.plain else Between(task.seed)
        self._hold = Hold()
        self._case, self._end = EmptyKernel(CASE), EmptyKernel(END)
        self._recorder: Recorder = choose_recorder()

    def find_unseen(self) -> list[str]:
        """Which of a kernel and a fill the recorder does not see; its first start also loads what it needs."""
        self._recorder.start()
        self._case.launch()
        self._flush()
        seen = {record.name for record in self._recorder.stop()}
        return [what for what, name in (("kernel", OURS + CASE), ("fill", FILL)) if name not in seen]

    def measure(self, number: int, ids: tuple[str, ...]) -> None:
        """One round of the cases."""
        sm_mhz = {}
        self._recorder.start()
        for case_id in ids:
            self._begin(Step(case_id, "measure", self._task.step_limit_s))
            sm_mhz[case_id] = self._launch(case_id)
        self._begin(Step("", "collect records", COLLECT_STEPS * self._task.step_limit_s))
        cases = split_cases(self._recorder.stop(), OURS)
        if len(cases) != len(ids):
            raise RuntimeError(f"CUPTI recorded {len(cases)} of {len(ids)} cases in round {number}")
        for case_id, records in zip(ids, cases, strict=True):
            self._begin(Step(case_id, "read records", self._task.step_limit_s))
            launches = split_launches(records, OURS)[COLD_WARM_UPS:]
            times_us = launch_times_us(launches, self._task.samples[case_id])
            self._channel.send(Sampled(number, case_id, times_us, sm_mhz[case_id]))

    def _launch(self, case_id: str) -> tuple[float, ...]:
        """Enqueues a case's warm-ups and samples, waits for them, and gives the SM clock while they ran."""
        rotation = self._rotations[case_id]
        self._case.launch()
        for _ in range(COLD_WARM_UPS + self._task.samples[case_id]):
            self._between.before()
            self._hold.begin()
            self._flush()
            turn = rotation.turn()
            outputs = turn.run()
            self._end.launch()
            self._hold.release()
            rotation.keep(outputs)
            self._between.after(turn.input_ranges, outputs)
        sm_mhz = self._sm_clock.read()
        self._device.synchronize()
        return sm_mhz
