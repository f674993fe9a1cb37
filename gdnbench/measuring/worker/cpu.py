"""Times on the CPU, for machines without a GPU: warm calls under torch's own timer, interleaved like the GPU's."""

from __future__ import annotations

import gc

from torch.utils.benchmark import Timer

from gdnbench.launch.bind import Launcher, bind
from gdnbench.measuring.protocol import BUILD_STEPS, EventChannel, Sampled, StepBegun, Task
from gdnbench.measuring.worker.device import BeginStep, CpuDevice, report_failure
from gdnbench.measuring.worker.placement import Workspaces
from gdnbench.model.case import Case


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    with report_failure(channel, CpuDevice(), task.roots) as begin:
        workspaces = Workspaces(task)
        timers = {case.id: _timer(workspaces, case, task, begin) for case in task.cases}
        gc.disable()
        for position, ids in enumerate(task.order):
            for case_id in ids:
                begin(StepBegun(case_id, "measure", task.step_limit_s))
                times_us = tuple(_call_us(timers[case_id]) for _ in range(task.samples[case_id]))
                channel.send(Sampled(task.round_number(position), case_id, times_us))


def _timer(workspaces: Workspaces, case: Case, task: Task, begin: BeginStep) -> Timer:
    begin(StepBegun(case.id, "bind", task.step_limit_s * BUILD_STEPS))
    workspace, _ = workspaces.get(case.workload, workspaces.scenarios[0])
    run: Launcher = bind(workspaces.entry(case), case.variant, workspace)
    run()
    return Timer("run()", globals={"run": run})


def _call_us(timer: Timer) -> float:
    return round(float(timer.timeit(1).mean) * 1e6, 4)
