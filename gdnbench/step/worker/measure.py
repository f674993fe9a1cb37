"""Measures steps: every case once a round, in the order of the task, between checks of each chain's outputs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
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
from gdnbench.step.plan import L2, STEP_LIMIT_S, Quantity, StepCase, StepTask, Way
from gdnbench.step.worker.layers import (
    Chain,
    Enqueue,
    Layers,
    NotLaunchedError,
    StandIn,
    WrongError,
    make_path,
    most_set_aside,
    set_aside,
)
from gdnbench.step.worker.loop import CLoop, NoCompilerError
from gdnbench.store.journal import EventChannel, Examined, Sampled, Started, StepBegun
from gdnbench.workers.activities import (
    CASE,
    CHECKS,
    COPY,
    FILL,
    Activity,
    ActivityRecorder,
    choose_recorder,
    split_cases,
)
from gdnbench.workers.cold import OWN_PREFIX, BlockingKernel, EmptyKernel, L2Flush, SmClock, raise_clock
from gdnbench.workers.device import CudaDevice, is_alive

WARM_UPS = 3  # untimed steps, which bring into the L2 what stays there
RECORDED = 4  # steps of a round whose kernels CUPTI times
Begin = Callable[[StepBegun], None]


class CaseEndedError(Exception):
    """A case has failed and the parent knows it; the worker must end."""


def measure_steps(task: StepTask, channel: EventChannel) -> None:
    """Checks every case, measures every round, and checks again; a case that fails ends the worker."""
    properties = torch.cuda.get_device_properties(0)
    channel.send(Started(properties.name, properties.multi_processor_count, properties.L2_cache_size))
    device = CudaDevice()
    with ExitStack() as stack, device.current():
        steps = _Steps(task, channel, device, stack)
        try:
            steps.prepare()
            steps.measure()
            steps.check_all()
            steps.record()
        except CaseEndedError:
            return


@dataclass(frozen=True)
class _Ready:
    """A case that can be launched."""

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
        self._recorder: ActivityRecorder = choose_recorder()
        self._sm_clock = SmClock(stack)
        self._ready: dict[str, _Ready] = {}
        self._start, self._end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )

    def prepare(self) -> None:
        """Draws the tensors, binds and captures every case, and checks its chain's outputs."""
        task, settings = self._task, self._task.settings
        catalog = load_catalog(Path(root) for root in task.roots)
        op = catalog.ops[task.op]
        numerics = load_numerics(op, catalog.op_folders[op.name])
        self._channel.send(StepBegun("", "build the C loop", STEP_LIMIT_S))
        try:
            loop = CLoop()
        except NoCompilerError:
            loop = None
        stand_in = StandIn(settings.layers, settings.between_mib) if settings.between_mib else None
        layers: dict[Workload, Layers] = {}
        chains: dict[tuple[Variant, Workload], Chain] = {}
        for case in task.cases:
            workload, variant = case.case.workload, case.case.variant
            with suppress(CaseEndedError), self._on(case, "bind and check"):
                if workload not in layers:
                    layers[workload] = Layers.draw(
                        op, numerics, workload, layers=settings.layers, seed=settings.seed, stand_in=stand_in
                    )
                if (variant, workload) not in chains:
                    entry = catalog.entries[variant.kernel]
                    chains[variant, workload] = Chain(entry, variant, layers[workload], loop)
                chain = chains[variant, workload]
                ready = _Ready(case, chain, make_path(case, chain, loop, self._device.stream.cuda_stream))
                self._check(ready)
                self._ready[case.id] = ready
                self._channel.send(Examined(case.id, Status.OK))
            if not is_alive(self._device):
                raise CaseEndedError

    def measure(self) -> None:
        self._channel.send(StepBegun("", "raise the clocks", STEP_LIMIT_S))
        raise_clock()
        gc.disable()
        for position, requested in enumerate(self._task.order):
            ids = [id_ for id_ in requested if id_ in self._ready]
            number = 0 if position == 0 else self._task.first_round + position - 1
            for id_ in ids:
                with self._on(self._ready[id_].case, "measure"):
                    self._measure(self._ready[id_], number)
            gc.collect()

    def record(self) -> None:
        """Records the kernels' own times in as many rounds; last, since CUPTI may slow launches once it has been on."""
        for position, requested in enumerate(self._task.order):
            number = 0 if position == 0 else self._task.first_round + position - 1
            self._record([id_ for id_ in requested if id_ in self._ready], number)

    def check_all(self) -> None:
        """Checks that every chain is still right."""
        for ready in self._ready.values():
            with self._on(ready.case, "check again"):
                self._check(ready)
        self._channel.send(StepBegun("", "end", STEP_LIMIT_S))  # no case is to blame for later failures

    def _on(self, case: StepCase, step: str) -> AbstractContextManager[None]:
        self._channel.send(StepBegun(case.id, step, STEP_LIMIT_S))
        return _reporting(case, self._channel, self._device)

    def _condition(self, case: StepCase) -> AbstractContextManager[None]:
        return set_aside(most_set_aside()) if case.l2 is L2.PERSISTING else nullcontext()

    def _check(self, ready: _Ready) -> None:
        with self._condition(ready.case):
            ready.chain.reset()
            torch.cuda.synchronize()
            ready.enqueue()
            torch.cuda.synchronize()
            ready.chain.check()

    def _measure(self, ready: _Ready, number: int) -> None:
        case, layers = ready.case, self._task.settings.layers
        taken: dict[Quantity, list[float]] = {each: [] for each in (Quantity.STEP, Quantity.HOST, Quantity.QUEUED)}
        with self._condition(case):
            for _ in range(WARM_UPS):
                ready.enqueue()
            torch.cuda.synchronize()
            for _ in range(self._task.settings.samples):
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

    def _record(self, ids: Sequence[str], number: int) -> None:
        """Records the kernels' own times of every case at once."""
        self._channel.send(StepBegun("", "record kernels", 2 * STEP_LIMIT_S))
        self._recorder.start()
        for id_ in ids:
            ready = self._ready[id_]
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
        cases = split_cases(self._recorder.stop(), OWN_PREFIX)
        if len(cases) != len(ids):
            return  # CUPTI lost a mark, so the records cannot be assigned
        for id_, activities in zip(ids, cases, strict=True):
            if self._ready[id_].case.path is Way.GRAPH_PDL:
                continue  # launches overlap: each one's time includes its wait for the previous one
            total_us = kernels_us(activities, RECORDED)
            if total_us is not None:
                per_layer = total_us / self._task.settings.layers
                self._channel.send(Sampled(number, self._ready[id_].case.of(Quantity.KERNELS), (per_layer,)))


def kernels_us(activities: Sequence[Activity], steps: int) -> float | None:
    """The sum of the kernels' times in a step, µs, or None if records are missing.

    `activities` are of `steps` equal steps; fills, copies and gdnbench's own kernels are ignored.
    """
    times_ns = [
        each.end_ns - each.start_ns
        for each in activities
        if not each.name.startswith((OWN_PREFIX, FILL, COPY, "Memset"))
    ]
    if not times_ns or len(times_ns) % steps:
        return None
    return float(np.sum(times_ns)) / 1e3 / steps


class _reporting(AbstractContextManager[None]):  # noqa: N801 - it is used as a function
    """Reports to the parent why a case failed, and ends the worker."""

    def __init__(self, case: StepCase, channel: EventChannel, device: CudaDevice) -> None:
        self._case, self._channel, self._device = case, channel, device

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        if isinstance(error, WrongError):
            status, reason = error.status, str(error)
        elif isinstance(error, NotLaunchedError):
            status, reason = Status.UNSUPPORTED, error.message
        elif isinstance(error, GdnbenchError):
            status, reason = Status.FAILED, error.message
        else:
            status = Status.FAILED if is_alive(self._device) else Status.CRASHED
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._channel.send(Examined(self._case.id, status, reason))
        raise CaseEndedError from error
