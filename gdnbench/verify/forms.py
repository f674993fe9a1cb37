"""Tries the forms of a copying floor: each is examined as a case, and the fastest is the one to measure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from gdnbench.errors import tell_raised
from gdnbench.launch.bind import load
from gdnbench.model.case import Case
from gdnbench.model.declaration import Params
from gdnbench.model.status import Status
from gdnbench.stats.estimators import trimmed_mean
from gdnbench.store.journal import BUILD_STEPS, EventChannel, Examined, StepBegun
from gdnbench.store.settings import trim_of
from gdnbench.verify.rotation import Rotation, Workspaces
from gdnbench.workers.cold import BlockingKernel, DitherAndScrub, L2Flush, SmClock, raise_clock
from gdnbench.workers.device import CudaDevice, WorkerDevice, is_alive
from gdnbench.workers.placement import Placements
from gdnbench.workers.task import GPU_SAMPLE_US, Task

CLEARLY = 0.01
"""Relative time by which a form must beat the declared one, so that runs on one GPU measure the same form."""
MOST_TRIAL_SAMPLES = 128
FEWEST_TRIAL_SAMPLES = 8
TRIAL_US = 200_000.0  # time of all samples of a trial, unless these are the fewest
TRIAL_PLACEMENTS = 128
"""Number of placements: at B=1 the placement changes the ratio of two kernels by percents.

With 16 placements on an H200, a form was chosen that a whole run found to be 1.7 % slower than the declared one.
"""
TRIAL_PLACED_BYTES = 4 << 30

TimeLaunch = Callable[[], float]
"""Launches a form once and returns its time in µs."""


def choose_form(times_us: Sequence[Sequence[float]], trim: float) -> int:
    """Index of the form with the least trimmed mean; 0, the declared one, unless another is faster by `CLEARLY`."""
    means = [trimmed_mean(np.asarray(times), trim) for times in times_us]
    fastest = int(np.argmin(means))
    return fastest if means[0] > (1.0 + CLEARLY) * means[fastest] else 0


def sample_interleaved(forms: Sequence[TimeLaunch], warm_ups: int, samples: int, seed: int) -> list[list[float]]:
    """Samples of each form, µs, after warm-ups; the forms are launched once each in turn, in an order drawn anew."""
    generator = random.Random(seed)
    times_us: list[list[float]] = [[] for _ in forms]
    for _ in range(warm_ups + samples):
        for position in generator.sample(range(len(forms)), len(forms)):
            times_us[position].append(forms[position]())
    return [times[warm_ups:] for times in times_us]


def count_samples(warm_us: Sequence[float], overhead_us: float) -> int:
    """Number of samples of each form that a trial affords, from the times of a warm call and besides it, µs."""
    affordable = TRIAL_US / max(sum(warm_us) + overhead_us * len(warm_us), 1.0)
    return max(FEWEST_TRIAL_SAMPLES, min(MOST_TRIAL_SAMPLES, int(affordable)))


class FormTrial:
    """Finds the fastest form of a case."""

    def __init__(self, task: Task, channel: EventChannel, device: WorkerDevice, workspaces: Workspaces) -> None:
        self._task = task
        self._channel = channel
        self._device = device
        self._workspaces = workspaces
        self._cold: ColdLaunches | None = None  # made once, since it compiles kernels

    def conduct(self, case: Case, examine: Callable[[Case], Examined]) -> Examined:
        """The verdict of `examine` on a case; with several forms, that on the form to measure, with its params."""
        if case.id not in self._task.forms:
            return examine(case)
        verdicts: dict[Case, Examined] = {}
        for params in self._task.forms[case.id]:
            form = replace(case, variant=replace(case.variant, params=Params(params)))
            verdicts[form] = examine(form)
            if verdicts[form].poisoned:
                return replace(verdicts[form], reason=f"as {form.variant.params}: {verdicts[form].reason}")
        fit = [form for form, verdict in verdicts.items() if verdict.status is Status.OK]
        if not fit:
            return next(iter(verdicts.values()))
        self._channel.send(StepBegun(case.id, "try its forms", self._task.step_limit_s * BUILD_STEPS))
        notes = [f"not as {form.variant.params}: {verdicts[form].reason}" for form in verdicts if form not in fit]
        try:
            chosen = fit[self._choose(fit, [verdicts[form].warm_us for form in fit])]
        except Exception as error:
            reason = f"its forms cannot be timed: {tell_raised(error, self._workspaces.entry(case).folder)}"
            if not is_alive(self._device):
                return Examined(case.id, Status.CRASHED, reason, poisoned=True)
            chosen = fit[0]  # the declared form, which is correct
            notes.append(reason)
        verdict = verdicts[chosen]
        return replace(verdict, params=dict(chosen.variant.params), notes=(*verdict.notes, *notes))

    def _choose(self, forms: Sequence[Case], warm_us: Sequence[float]) -> int:
        samplers: list[TimeLaunch]
        if len(forms) == 1:
            return 0
        if isinstance(self._device, CudaDevice):
            samplers, warm_ups = self._cold_samplers(forms, self._device)
            samples = count_samples(warm_us, GPU_SAMPLE_US)
        else:
            workspace = self._workspaces.workspace(forms[0].workload, self._workspaces.kinds(forms[0].workload)[0])
            runs = [load(self._workspaces.entry(form), form.variant, form.workload)(workspace) for form in forms]
            samplers = [partial(self._device.time_us, run, 1) for run in runs]
            warm_ups, samples = 1, count_samples(warm_us, 0.0)
        times_us = sample_interleaved(samplers, warm_ups, samples, self._task.seed)
        return choose_form(times_us, trim_of(self._task.device))

    def _cold_samplers(self, forms: Sequence[Case], device: CudaDevice) -> tuple[list[TimeLaunch], int]:
        workspace = self._workspaces.workspace(forms[0].workload, self._workspaces.kinds(forms[0].workload)[0])
        nbytes = workspace.op.tensor_bytes(workspace.workload)
        window = max(1, min(TRIAL_PLACEMENTS, TRIAL_PLACED_BYTES // max(nbytes, 1)))
        placements = Placements(workspace, window, 1)
        binders = [load(self._workspaces.entry(form), form.variant, form.workload) for form in forms]
        rotations = [Rotation(bind, placements) for bind in binders]
        device.synchronize()
        if self._cold is None:
            self._cold = ColdLaunches(device, self._task.seed)
        self._cold.raise_clock()
        return [partial(self._cold.time_us, rotation) for rotation in rotations], window


class ColdLaunches:
    """Times launches event to event, as `nvbench.py` does: L2 flushed, the stream held while the host enqueues them."""

    def __init__(self, device: CudaDevice, seed: int) -> None:
        self._stream = device.stream
        self._flush = L2Flush()
        self._blocking = BlockingKernel()
        self._between = DitherAndScrub(seed)
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def raise_clock(self) -> None:
        """Keeps the GPU busy until its clock has risen."""
        with ExitStack() as stack:
            raise_clock(SmClock(stack))

    def time_us(self, rotation: Rotation) -> float:
        """Launches a case on its next placement and returns the time in µs; releases the GPU if the launch raises."""
        placement = rotation.next_placement()
        self._flush()
        self._blocking.enqueue()
        try:
            self._between.before()
            self._begin.record(self._stream)
            outputs = placement.run()
            self._end.record(self._stream)
        finally:
            self._blocking.release()
        self._between.after(placement.ranges, rotation.keep(placement, outputs))
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e3
