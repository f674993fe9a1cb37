"""Times on the CPU, without a GPU: warm calls on one thread, by Python's timer, interleaved as on a GPU.

Untimed calls precede each timed one, and every call gets other inputs. torch's timer makes warm-up calls of its own, so
a kernel that updates a tensor in place would do so three times.
"""

from __future__ import annotations

import gc
from functools import partial
from timeit import Timer

import torch

from gdnbench.launch.bind import Launcher, bind
from gdnbench.model.workload import Workload
from gdnbench.store.journal import BUILD_STEPS, BURN_IN, EventChannel, Sampled, StepBegun
from gdnbench.verify.rotation import CheckedPlacements, TimedChecks, Workspaces
from gdnbench.workers.device import BeginStep, CpuDevice, report_failure
from gdnbench.workers.placement import RenewedPlacements
from gdnbench.workers.task import CPU_CALLS_PER_SAMPLE, Task

WARM_UPS = CPU_CALLS_PER_SAMPLE - 1
PLACE = 0  # a single placement: a warm cache holds tensors at any address


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every round of the task and sends each as soon as it is known."""
    device = CpuDevice()
    with device.current(), report_failure(channel, device, task.roots) as begin:
        cases = _bind_cases(task, begin)
        gc.disable()
        for position, ids in enumerate(task.order):
            for case_id in ids:
                begin(StepBegun(case_id, "measure", task.step_limit_s))
                number, is_last = task.round_number(position), task.is_last(position)
                times_us, checked = cases[case_id].measure(task.samples[case_id], number, is_last=is_last)
                channel.send(Sampled(number, case_id, times_us, checked=checked))


class _TimedCase:
    def __init__(self, run: Launcher, checks: TimedChecks) -> None:
        self._returned: list[tuple[torch.Tensor, ...]] = [()]
        timer = Timer("returned[0] = run()", globals={"run": run, "returned": self._returned})
        self._call = partial(timer.timeit, 1)
        self._checks = checks
        self._checks.open([PLACE], BURN_IN)
        self._call()
        self._renew()

    def measure(self, samples: int, number: int, *, is_last: bool) -> tuple[tuple[float, ...], int]:
        """The samples of a round in µs, and the number of checked ones; raises WrongWhenTimedError if one was wrong."""
        self._checks.open([PLACE], number, is_last=is_last)
        times_us = tuple(self._call_us() for _ in range(samples))
        return times_us, self._checks.judge()

    def _call_us(self) -> float:
        for _ in range(WARM_UPS):
            self._call()
            self._renew()
        time_us = round(self._call() * 1e6, 4)
        self._checks.take(PLACE, self._returned[0])
        self._renew()
        return time_us

    def _renew(self) -> None:
        self._checks.renew(PLACE)
        self._returned[0] = ()


def _bind_cases(task: Task, begin: BeginStep) -> dict[str, _TimedCase]:
    workspaces = Workspaces(task)
    checked: dict[Workload, CheckedPlacements] = {}
    timed = {}
    for case in task.cases:
        begin(StepBegun(case.id, "bind", task.step_limit_s * BUILD_STEPS))
        if case.workload not in checked:
            placements = RenewedPlacements([workspaces.draw(case.workload)])
            checked[case.workload] = CheckedPlacements(placements, workspaces.draws(case.workload))
        entry, at = workspaces.entry(case), checked[case.workload]
        checks = TimedChecks(entry.kernel, at, untimed=0, timed=task.samples[case.id])
        timed[case.id] = _TimedCase(bind(entry, case.variant, at.placements.workspaces[PLACE]), checks)
    return timed
