"""A GPU made up for the tests: its workers answer with times that depend on case and round alone."""

from __future__ import annotations

import os
import time
import zlib

import numpy as np

from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined, HostTimes, PassBegun, Sampled, Started
from gdnbench.workers.supervision import WorkerEnd, WorkerOutcome
from gdnbench.workers.task import Phase

GPU = Gpu(0, "NVIDIA B200", "GPU-b2000000-0000-0000-0000-000000000000", (10, 0), 148, 180 << 30)
VARIABLE = "GDNBENCH_SIMULATED"
"""Has a process with `simulated` on its path find that GPU; seconds that a round takes."""

DOES_NOTHING = "GDNBENCH_SIMULATED_DOES_NOTHING"
"""The kernel whose launches are empty there, if any."""

LAUNCH_US, LAUNCH_SD_US = 2.8, 0.05


def true_us(case):
    """The kernel time of a case: as long as a copy takes, and longer by what its label says."""
    copy_us = 1.2 + 0.19 * case.workload.sizes["B"]
    if case.variant.kernel == "decode-floor-copy":
        return copy_us
    if case.variant.kernel == os.environ.get(DOES_NOTHING):
        return 0.01
    return copy_us * (1.05 + 0.6 * zlib.crc32(case.variant.label.encode()) / 2**32)


def simulate(_module, task, folder, name, _environment, on_event, _stop=None, warm=None, waiting=None):
    """Stands in for `supervise`: noise of a round, a placement's, a process's, and its launch."""
    task.write(folder / f"{name}.json")
    (folder / f"{name}.log").write_text("")
    if task.phase is Phase.EXAMINE:
        on_event(Started(GPU.name, GPU.sms, 120 << 20))
        for case in task.cases:
            on_event(Examined(case.id, Status.OK, launches=1, warm_us=3.0))
        return WorkerOutcome(WorkerEnd.FINISHED)
    by_id = {case.id: case for case in task.cases}
    for number, each in enumerate(task.passes()):
        on_event(PassBegun(number))
        _measure(each, by_id, on_event)
    if task.clock is None:
        on_event(HostTimes(dict.fromkeys(by_id, 2.5)))
    return WorkerOutcome(WorkerEnd.FINISHED)


def _measure(task, by_id, on_event):
    process = _generator(task.clock, task.first_round)
    launch_us = 0.0 if task.clock else process.normal(LAUNCH_US, LAUNCH_SD_US)
    for position, ids in enumerate(task.order):
        time.sleep(float(os.environ.get(VARIABLE, "0")))
        for case_id in ids:
            number = task.round_number(position)
            of_process = _generator(task.clock, task.first_round, case_id).normal(1.0, 0.0005)
            noise = _generator(task.clock, number, case_id)
            kernel_us = true_us(by_id[case_id]) * of_process * noise.normal(1.0, 0.003)
            times_us = launch_us + kernel_us * noise.normal(1.0, 0.01, size=8)
            on_event(Sampled(number, case_id, tuple(times_us), (1965.0,)))


def install(patch):
    """Has this process find that GPU alone, and ask the workers made up; `patch` replaces an attribute by its path."""
    patch("gdnbench.machine.gpus.list_gpus", lambda: (GPU,))
    for place in ("remote.job", "measure.start"):
        patch(f"gdnbench.{place}.list_gpus", lambda: (GPU,))
    patch("gdnbench.measure.start._warm", lambda _gpu: None)
    patch("gdnbench.score.run.WarmParent", lambda _environment: None)  # which would import torch and no more
    for place in ("measure.timing", "verify.preflight"):
        patch(f"gdnbench.{place}.supervise", simulate)


def _generator(*of):
    return np.random.default_rng(zlib.crc32(repr(of).encode()))
