"""Cold GPU times from NVBench, interleaved: one benchmark per round and case, run once each in shuffled order.

NVBench flushes the L2 before each sample and holds the stream with a blocking kernel until the host has enqueued the
whole launch, so the time includes neither a warm cache nor the host's launch cost. We bracket the launch ourselves
(`timer=True`, which reads the same as leaving it to NVBench), to do between samples what NVBench does not: rotate
placements, scrub the L2, dither the launch queue. NVBench can run once per process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import torch

from gdnbench.errors import tell_raised
from gdnbench.model.status import Status
from gdnbench.store.journal import BURN_IN, EventChannel, Examined, HostTimes, PassBegun, Sampled, StepBegun
from gdnbench.verify.rotation import Rotation
from gdnbench.workers.cold import DitherAndScrub, NothingBetween, choose_between
from gdnbench.workers.device import CudaDevice, TamperingError, TamperWatch, WrongWhenTimedError, is_alive
from gdnbench.workers.task import WARM_UPS, Task, file_of

BLOCKING_KERNEL_TIMEOUT_S = 2.0  # after this time NVBench abandons a launch that is not yet enqueued
NOT_ENQUEUED = "Deadlock detected"
"""NVBench's error after that timeout. A case that itself waits for the GPU fails the capture of its preflight."""
_SAMPLE_BYTES = 4  # float32
OPTIONS = (
    *("-q", "-d", "0"),
    *("--cold-max-warmup-walltime", "0.5"),
    *("--throttle-threshold", "0"),  # clocks are recorded and judged afterwards, over all rounds
    *("--timeout", "20"),
)


def measure(
    passes: Sequence[tuple[int, Task]],
    channel: EventChannel,
    device: CudaDevice,
    rotations: dict[str, Rotation],
    watch: TamperWatch,
) -> None:
    """Measures every round of some passes, numbered as in the worker's task, and sends each as soon as it is known."""
    import cuda.bench as nvbench

    task = passes[0][1]
    between, numbers = choose_between(task), count()
    host_us: dict[str, list[float]] = {}
    for number, each in passes:
        for position, ids in enumerate(each.order):
            for case_id in ids:
                function = _Benchmark(
                    each,
                    number,
                    channel,
                    device,
                    case_id,
                    rotations[case_id],
                    between,
                    numbers,
                    host_us,
                    position,
                    watch,
                )
                benchmark = nvbench.register(function)
                benchmark.set_name(function.__name__)
                benchmark.set_stopping_criterion("sample-count")
                benchmark.set_criterion_param_int64("target-samples", each.samples[case_id])
                benchmark.set_min_samples(each.samples[case_id])
    warm_ups = ("--cold-warmup-runs", str(WARM_UPS))
    nvbench.run_all_benchmarks(["gdnbench", *OPTIONS, *warm_ups, "--jsonbin", task.record])
    channel.send(HostTimes({case_id: median(rounds) for case_id, rounds in host_us.items()}))


@dataclass(eq=False)
class _Benchmark:
    """The function that NVBench calls for one round of one case, in the pass `number` of the worker.

    `numbers` are those of the files that it writes.
    """

    task: Task
    number: int
    channel: EventChannel
    device: CudaDevice
    case_id: str
    rotation: Rotation
    between: DitherAndScrub | NothingBetween
    numbers: Iterator[int]
    host_us: dict[str, list[float]]
    position: int
    watch: TamperWatch

    def __post_init__(self) -> None:
        self._host_ns: list[int] = []
        self._round = self.task.round_number(self.position)
        self.__name__ = f"p{self.number}/r{self._round:02d}/{self.case_id}"

    def __call__(self, state: Any) -> None:
        self.channel.send(PassBegun(self.number))
        self.channel.send(StepBegun(self.case_id, "measure", self.task.step_limit_s))
        state.set_stream(_StreamHandle(self.device.stream))
        state.set_blocking_kernel_timeout(BLOCKING_KERNEL_TIMEOUT_S)
        try:
            with self.device.current():
                timed, is_last = self.task.samples[self.case_id], self.task.is_last(self.position)
                self.rotation.open(self.position, self._round, is_last=is_last, timed=timed)
                state.exec(self._sample, batched=False, timer=True)
                checked = self.rotation.judge()
            # A launch of a compiled kernel runs no Python of its own that could replace functions.
            if self.rotation.runs_python or self.task.is_last(self.position):
                self.watch.check()
        except WrongWhenTimedError as error:
            self._give_up(str(error), Status.WRONG_WHEN_TIMED)
        except TamperingError as error:
            self._give_up(str(error), Status.TAMPERS)
        except Exception as error:
            self._give_up(_describe(error, *map(Path, self.task.roots)))
        if state.is_skipped():  # it left no samples, and the newest files are another case's
            self._give_up(f"NVBench skipped it: {state.get_skip_reason()}")
        if self._round != BURN_IN:
            self.host_us.setdefault(self.case_id, []).append(median(self._host_ns) / 1e3)
        record = next(self.numbers)
        samples = file_of(Path(self.task.record), record, "bin").stat().st_size // _SAMPLE_BYTES
        inputs, outputs = self.rotation.visited(samples)
        sampled = Sampled(
            self._round, self.case_id, (), placements=inputs, output_placements=outputs, checked=checked, record=record
        )
        self.channel.send(sampled)

    def _sample(self, _launch: Any, timer: Any) -> None:
        self.between.before()
        placement = self.rotation.next_placement()
        timer.start()
        # The GPU waits for the host here, so nothing of the kernel is in the host's time. NVBench's own
        # `nv/cold/time/cpu` ends when the GPU does.
        begin_ns = time.perf_counter_ns()
        outputs = placement.run()
        self._host_ns.append(time.perf_counter_ns() - begin_ns)
        timer.stop()
        self.between.after(placement.ranges, self.rotation.keep(placement, outputs))
        self.rotation.renew(placement)

    def _give_up(self, reason: str, status: Status = Status.FAILED) -> NoReturn:
        """Reports the loss of the case and ends the process, since NVBench would go on; the parent starts another."""
        status = status if is_alive(self.device) else Status.CRASHED
        self.channel.send(Examined(self.case_id, status, reason))
        os._exit(0)


def _describe(error: Exception, *roots: Path) -> str:
    if NOT_ENQUEUED not in str(error):
        return tell_raised(error, *roots)
    return (
        f"its launches were not enqueued within {BLOCKING_KERNEL_TIMEOUT_S:g} s: a launch queue holds 1024 while the "
        "GPU waits; let it replay a CUDA graph of them, or time a smaller workload"
    )


class _StreamHandle:
    """A torch stream in the form that NVBench takes."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._stream.cuda_stream)
