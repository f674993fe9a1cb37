"""A GPU's worker: binds its cases once, then measures each pass of its task by its timer, NVBench before CUPTI."""

from __future__ import annotations

import gc
from contextlib import ExitStack

from gdnbench.measure.worker import cupti, nvbench
from gdnbench.store.journal import EventChannel, PassBegun, Refused, StepBegun, Tuned
from gdnbench.verify.rotation import bind_cases
from gdnbench.workers.cold import SmClock, raise_clock
from gdnbench.workers.device import CudaDevice, TamperWatch, report_failure
from gdnbench.workers.task import Task


def measure_all(task: Task, channel: EventChannel) -> None:
    """Measures every pass of the task, whose clocks are NVBench's and CUPTI's, and sends each round when it is known.

    Launches may be slower once CUPTI has recorded, so NVBench's passes come first.
    """
    passes = list(enumerate(task.passes()))
    by_nvbench = [each for each in passes if each[1].clock is None]
    if by_nvbench:  # before a kernel's code is imported
        try:
            import cuda.bench  # noqa: F401
        except ImportError as error:
            channel.send(Refused(f"cuda-bench does not load: {error}", "see `gdnbench doctor`"))
            return
    device = CudaDevice()
    watch = TamperWatch(device)
    with ExitStack() as stack, device.current(), report_failure(channel, device, task.roots) as begin:
        rotations = bind_cases(task, begin, device)
        for case_id, rotation in rotations.items():
            if rotation.tuned:
                channel.send(Tuned(case_id, rotation.tuned))
        begin(StepBegun("", "raise the clocks", task.step_limit_s))
        sm_clock = SmClock(stack)
        raise_clock(sm_clock)
        gc.disable()
        if by_nvbench:
            nvbench.measure(by_nvbench, channel, device, rotations, watch)
        for number, each in passes[len(by_nvbench) :]:
            channel.send(PassBegun(number))
            cupti.measure(each, channel, begin, device, rotations, sm_clock)
