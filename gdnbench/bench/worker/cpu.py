"""Times on the CPU, for machines without a GPU: warm calls under torch's own timer, interleaved like the GPU's."""

from __future__ import annotations

import gc

from torch.utils.benchmark import Timer

from gdnbench.bench.events import Channel, Sampled, Step
from gdnbench.bench.task import BUILD_STEPS, Task
from gdnbench.bench.worker.blame import Begin, blaming
from gdnbench.bench.worker.device import CpuDevice
from gdnbench.bench.worker.workload import Workload
from gdnbench.launch import Launcher, bind
from gdnbench.model import Case


def measure_all(task: Task, channel: Channel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    with blaming(channel, CpuDevice(), task.roots) as begin:
        workload = Workload(task)
        timers = {case.id: _timer(workload, case, task, begin) for case in task.cases}
        gc.disable()
        for position, ids in enumerate(task.order):
            for case_id in ids:
                begin(Step(case_id, "measure", task.step_limit_s))
                times_us = tuple(_call_us(timers[case_id]) for _ in range(task.samples[case_id]))
                channel.send(Sampled(task.round_number(position), case_id, times_us))


def _timer(workload: Workload, case: Case, task: Task, begin: Begin) -> Timer:
    begin(Step(case.id, "bind", task.step_limit_s * BUILD_STEPS))
    workspace, _ = workload.get(case.shape, workload.scenarios[0])
    run: Launcher = bind(workload.entry(case), case.variant, workspace)
    run()
    return Timer("run()", globals={"run": run})


def _call_us(timer: Timer) -> float:
    return round(float(timer.timeit(1).mean) * 1e6, 4)
