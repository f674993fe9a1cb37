"""Measures steps: every case once a round, in the order of the task, between checks of each chain's outputs."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import GdnbenchError
from gdnbench.launch import load_numerics
from gdnbench.model.case import Variant
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.step.plan import L2, Quantity, StepCase, StepTask, Way
from gdnbench.step.worker.layers import (
    Chain,
    Enqueue,
    Layers,
    NotLaunchedError,
    StandIn,
    WrongError,
    make_path,
    set_most_aside,
)
from gdnbench.step.worker.loop import CLoop, NoCompilerError
from gdnbench.store.journal import EventChannel, Examined, Sampled, StepBegun
from gdnbench.workers.cold import OWN_PREFIX, BlockingKernel, EmptyKernel, L2Flush, SmClock, raise_clock
from gdnbench.workers.device import CudaDevice, is_alive
from gdnbench.workers.launched import CASE, CHECKS, COPY, FILL, Activity, ActivityRecorder, split_cases

WARM_UPS = 3  # untimed steps, which bring into the L2 what stays there
RECORDED = 4  # steps of a round whose kernels CUPTI times


class DeviceLostError(Exception):
    """A case has taken the device down, and the parent knows it; the worker must end."""


def measure_steps(task: StepTask, channel: EventChannel) -> None:
    """Checks every case, measures every round, and checks again, without the cases that have failed."""
    device = CudaDevice()
    with ExitStack() as stack, device.current(), suppress(DeviceLostError):
        steps = _Steps(task, channel, device, stack)
        steps.prepare()
        steps.measure()
        steps.check_all()
        steps.record()


@dataclass(frozen=True)
class _Ready:
    case: StepCase
    chain: Chain
    enqueue: Enqueue


class _Steps:
    def __init__(self, task: StepTask, channel: EventChannel, device: CudaDevice, stack: ExitStack) -> None:
        self._task = task
        self._channel = channel
        self._device = device
        self._flush = L2Flush()
        self._blocking = BlockingKernel()
        self._case, self._checks = EmptyKernel(CASE), EmptyKernel(CHECKS)
        self._recorder = ActivityRecorder()
        self._sm_clock = SmClock(stack)
        self._ready: dict[str, _Ready] = {}
        self._start, self._end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )

    def prepare(self) -> None:
        """Draws the tensors, binds and captures every case, and checks its chain's outputs."""
        task = self._task
        catalog = load_catalog((Path(root) for root in task.roots), only=task.op)
        op = catalog.ops[task.op]
        numerics = load_numerics(op, catalog.op_folders[op.name])
        self._begin("build the C loop")
        try:
            loop = CLoop()
        except NoCompilerError:
            loop = None
        stand_in = StandIn(task.layers, task.between_mib) if task.between_mib else None
        layers: dict[Workload, Layers] = {}
        chains: dict[tuple[Variant, Workload], Chain] = {}
        for case in task.cases:
            workload, variant = case.workload, case.variant
            with self._on(case, "bind and check"):
                if workload not in layers:
                    layers[workload] = Layers.draw(
                        op, numerics, workload, layers=task.layers, seed=task.seed, stand_in=stand_in
                    )
                if (variant, workload) not in chains:
                    chains[variant, workload] = Chain(catalog.entries[variant.kernel], variant, layers[workload])
                chain = chains[variant, workload]
                ready = _Ready(case, chain, make_path(case, chain, loop, self._device.stream.cuda_stream))
                self._check(ready)
                self._ready[case.id] = ready

    def measure(self) -> None:
        self._begin("raise the clocks")
        raise_clock()
        gc.disable()
        for position, ids in enumerate(self._task.order):
            for id_ in ids:
                if ready := self._ready.get(id_):
                    with self._on(ready.case, "measure"):
                        self._measure(ready, self._task.round_number(position))
            gc.collect()

    def record(self) -> None:
        """Records the kernels' own times in as many rounds; last, since CUPTI may slow launches once it has been on."""
        for position, ids in enumerate(self._task.order):
            self._record([self._ready[id_] for id_ in ids if id_ in self._ready], self._task.round_number(position))

    def check_all(self) -> None:
        """Checks that every chain is still right."""
        for ready in list(self._ready.values()):
            with self._on(ready.case, "check again"):
                self._check(ready)
        self._begin("end")  # no case is to blame for later failures

    def _begin(self, step: str, case: str = "", steps: int = 1) -> None:
        self._channel.send(StepBegun(case, step, steps * self._task.step_limit_s))

    @contextmanager
    def _on(self, case: StepCase, step: str) -> Iterator[None]:
        """Reports to the parent why a case failed, and goes on without it; raises DeviceLostError if nothing can."""
        self._begin(step, case.id)
        try:
            yield
        except Exception as error:
            status, reason = Status.FAILED, f"{type(error).__name__}: {error}".partition("\n")[0]
            if isinstance(error, WrongError):
                status, reason = error.status, str(error)
            elif isinstance(error, GdnbenchError):
                status = Status.UNSUPPORTED if isinstance(error, NotLaunchedError) else Status.FAILED
                reason = error.message
            lost = not is_alive(self._device)
            self._channel.send(Examined(case.id, Status.CRASHED if lost else status, reason))
            self._ready.pop(case.id, None)
            if lost:
                raise DeviceLostError from error

    def _condition(self, case: StepCase) -> AbstractContextManager[None]:
        return set_most_aside() if case.l2 is L2.PERSISTING else nullcontext()

    def _check(self, ready: _Ready) -> None:
        with self._condition(ready.case):
            ready.chain.reset()
            torch.cuda.synchronize()
            ready.enqueue()
            torch.cuda.synchronize()
            ready.chain.check()

    def _measure(self, ready: _Ready, number: int) -> None:
        case, layers = ready.case, self._task.layers
        taken: dict[Quantity, list[float]] = {each: [] for each in (Quantity.STEP, Quantity.HOST, Quantity.QUEUED)}
        with self._condition(case):
            for _ in range(WARM_UPS):
                ready.enqueue()
            torch.cuda.synchronize()
            for _ in range(self._task.samples[case.id]):
                self._before(case)
                torch.cuda.synchronize()
                self._start.record()
                begun = time.perf_counter_ns()
                ready.enqueue()
                host_ns = time.perf_counter_ns() - begun
                self._end.record()
                self._end.synchronize()
                taken[Quantity.STEP].append(self._start.elapsed_time(self._end) * 1e3 / layers)
                taken[Quantity.HOST].append(host_ns / 1e3 / layers)
                self._blocking.enqueue()
                self._before(case)
                self._start.record()
                ready.enqueue()
                self._end.record()
                self._blocking.release()
                self._end.synchronize()
                taken[Quantity.QUEUED].append(self._start.elapsed_time(self._end) * 1e3 / layers)
            sm_mhz = self._sm_clock.read()
        for quantity, times_us in taken.items():
            self._channel.send(Sampled(number, case.of(quantity), tuple(times_us), sm_mhz))

    def _before(self, case: StepCase) -> None:
        if case.l2 is L2.EVICTED:
            self._flush()

    def _record(self, cases: Sequence[_Ready], number: int) -> None:
        self._begin("record kernels", steps=2)
        self._recorder.start()
        for ready in cases:
            with self._condition(ready.case):
                ready.enqueue()
                torch.cuda.synchronize()
                self._case.launch()
                for _ in range(RECORDED):
                    self._before(ready.case)
                    ready.enqueue()
                torch.cuda.synchronize()
                self._checks.launch()
                torch.cuda.synchronize()
        recorded = split_cases(self._recorder.stop(), OWN_PREFIX)
        if len(recorded) != len(cases):
            return  # CUPTI lost a mark, so the records cannot be assigned
        for ready, activities in zip(cases, recorded, strict=True):
            if ready.case.path is Way.GRAPH_PDL:
                continue  # launches overlap: each one's time includes its wait for the previous one
            if (total_us := kernels_us(activities, RECORDED)) is not None:
                times_us = (total_us / self._task.layers,)
                self._channel.send(Sampled(number, ready.case.of(Quantity.KERNELS), times_us))


def kernels_us(activities: Sequence[Activity], steps: int) -> float | None:
    """Kernels' times in a step, µs, over `steps` equal steps, ours left out; None if records are missing."""
    times_ns = [
        each.end_ns - each.start_ns
        for each in activities
        if not each.name.startswith((OWN_PREFIX, FILL, COPY, "Memset"))
    ]
    if not times_ns or len(times_ns) % steps:
        return None
    return float(np.sum(times_ns)) / 1e3 / steps
