"""The device of a worker: waits, time limits, timed calls, captures into CUDA graphs, and classified failures."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch

from gdnbench.errors import tell_raised
from gdnbench.launch.bind import Launcher
from gdnbench.model.status import Status
from gdnbench.store.journal import EventChannel, Examined, StepBegun
from gdnbench.workers.device import FunctionSnapshot, WrongWhenTimedError, told
from gdnbench.workers.launched import graph_nodes, list_launched

if TYPE_CHECKING:
    from gdnbench.workers.launched import PersistingL2


TimedCall = Callable[[], object]


class WorkerDevice(Protocol):
    """The operations that differ between a GPU and a CPU."""

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's own stream the current one."""

    def synchronize(self) -> None:
        """Waits for all work; raises its errors."""

    def time_us(self, run: TimedCall, calls: int) -> float:
        """Approximate mean time of a warm call, µs."""


class CpuDevice:
    """The CPU, whose work is done when the call returns."""

    def current(self) -> AbstractContextManager[object]:
        """A CPU has no streams."""
        return nullcontext()

    def synchronize(self) -> None:
        """A CPU has nothing to wait for."""

    def time_us(self, run: TimedCall, calls: int) -> float:
        """Mean time of a call by the wall clock, µs."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls * 1e6


class CudaDevice:
    """One GPU, device 0 of this process, with a stream of the worker's own.

    The stream is not the default one, which exposes work that a kernel puts on the default stream.
    """

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's stream current, for torch and Triton alike."""
        return torch.cuda.stream(self.stream)

    def synchronize(self) -> None:
        """Waits for every stream of the device."""
        torch.cuda.synchronize()

    def time_us(self, run: TimedCall, calls: int) -> float:
        """Mean time of a call by CUDA events around back-to-back calls, µs."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record(self.stream)
        for _ in range(calls):
            run()
        end.record(self.stream)
        end.synchronize()
        return float(start.elapsed_time(end)) / calls * 1e3


def is_alive(device: WorkerDevice) -> bool:
    """Whether the device responds; after a fault such as an illegal address the process's context is lost."""
    try:
        device.synchronize()
    except Exception:
        return False
    return True


@dataclass(frozen=True)
class CapturedCall:
    """A call captured into a CUDA graph: numbers of `kernels` and of all `operations`, copies and fills included.

    A replay writes to `outputs`; `launched` has the names that `list_launched` gives.
    """

    graph: torch.cuda.CUDAGraph
    outputs: tuple[torch.Tensor, ...]
    kernels: int
    launched: tuple[str, ...]
    operations: int


def capture(run: Launcher, *, strict: bool, pool: Any = None) -> CapturedCall:
    """Captures one call on the current stream; if the capture breaks, raises what the call raised first.

    Args:
        strict: whether calls that may wait for the device, such as an allocation by the driver, break the capture
            wherever they are made; otherwise only on the capturing stream.
        pool: handle of memory that the graph shares with others, which must not be replayed at the same time.
    """
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # a capture cannot use cached memory, and earlier graphs have left theirs
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    graph.capture_begin(pool=pool, capture_error_mode="global" if strict else "relaxed")
    try:
        outputs = run()
    except Exception:
        with suppress(RuntimeError):  # it would say only that there was an error
            graph.capture_end()
        raise
    graph.capture_end()
    handle = graph.raw_cuda_graph()
    kernels, operations = _count_nodes(handle)
    return CapturedCall(graph, tuple(outputs), kernels, list_launched(handle), operations)


def _count_nodes(handle: int) -> tuple[int, int]:
    from cuda.bindings import driver

    kinds = [kind for _, kind in graph_nodes(handle)]
    return kinds.count(driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL), len(kinds)


BeginStep = Callable[[StepBegun], None]
"""Announces a step to the parent."""


@contextmanager
def report_failure(channel: EventChannel, device: WorkerDevice, roots: Sequence[str]) -> Iterator[BeginStep]:
    """Reports a case that raises, tampers or is wrong to the parent, and swallows the exception; the worker must end.

    Replaced functions are found when the next step begins, so no case is timed with what another has replaced. Files
    and lines below `roots` are reported. Exceptions outside any case's step are raised.
    """
    case_id, watch = "", TamperWatch(device)

    def begin(step: StepBegun) -> None:
        nonlocal case_id
        watch.check()
        case_id = step.case
        channel.send(step)

    try:
        yield begin
        watch.check()
    except TamperingError as error:
        if not case_id:
            raise
        channel.send(Examined(case_id, Status.TAMPERS, str(error)))
    except WrongWhenTimedError as error:
        channel.send(Examined(case_id, Status.WRONG_WHEN_TIMED, str(error)))
    except Exception as error:
        if not case_id:
            raise
        status = Status.FAILED if is_alive(device) else Status.CRASHED
        channel.send(Examined(case_id, status, tell_raised(error, *map(Path, roots))))


class TamperingError(Exception):
    """A kernel has replaced functions by which it is judged, or set a part of the L2 aside."""


class TamperWatch:
    """Detects changes of the functions by which kernels are judged, and of the L2's settings.

    To be made before any kernel is imported: the state at that time is the reference.
    """

    def __init__(self, device: WorkerDevice) -> None:
        self._functions = FunctionSnapshot()
        self._l2 = _watch_l2(device) if isinstance(device, CudaDevice) else None

    def check(self) -> None:
        """Raises TamperingError if something has changed; the setting of the L2 is restored."""
        if names := self._functions.replaced():
            raise TamperingError(told(names))
        if self._l2 and (changes := self._l2.changes()):
            raise TamperingError(f"it sets the L2 cache aside for itself: {' and '.join(changes)}")


def _watch_l2(device: CudaDevice) -> PersistingL2:
    from gdnbench.workers.launched import PersistingL2  # imports the driver, which is missing without a GPU

    return PersistingL2(device.stream.cuda_stream)


class TimeLimit:
    """Raises TimeoutError within its `with`, once, after some seconds.

    It works for Python code in a process's first thread. Native code, and code that catches the error, is stopped by
    the process that watches this one. `is_over`: the error was raised; it may have been caught and replaced.
    """

    is_over = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _stop(self, *_: object) -> None:
        self.is_over = True
        raise TimeoutError
