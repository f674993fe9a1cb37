"""The device of a worker: wait, time a call, capture a call into a CUDA graph, and tell what a failure was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gdnbench.errors import tell_raised
from gdnbench.launch.bind import Launcher
from gdnbench.measuring.protocol import EventChannel, Examined, StepBegun
from gdnbench.measuring.worker.launched import graph_nodes, list_launched
from gdnbench.measuring.worker.tampering import FunctionSnapshot, told
from gdnbench.measuring.worker.timed_checks import WrongWhenTimedError
from gdnbench.model.status import Status

if TYPE_CHECKING:
    from gdnbench.measuring.worker.l2_setting import PersistingL2

TimedCall = Callable[[], object]


class WorkerDevice(Protocol):
    """What differs between a GPU and a CPU."""

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's own stream the current one."""

    def synchronize(self) -> None:
        """Waits for all work; raises what went wrong in it."""

    def time_us(self, run: TimedCall, calls: int) -> float:
        """Mean time of a warm call, microseconds; a rough figure."""


class CpuDevice:
    """Work is done when the call returns."""

    def current(self) -> AbstractContextManager[object]:
        """There are no streams."""
        return nullcontext()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def time_us(self, run: TimedCall, calls: int) -> float:
        """By the wall clock."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls * 1e6


class CudaDevice:
    """One GPU, device 0 of this process, with a stream of the worker's own.

    The stream is not the default one: work that a kernel puts on the default stream then shows.
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
        """By CUDA events around back-to-back calls."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record(self.stream)
        for _ in range(calls):
            run()
        end.record(self.stream)
        end.synchronize()
        return float(start.elapsed_time(end)) / calls * 1e3


def is_alive(device: WorkerDevice) -> bool:
    """Whether the device still answers; after a fault such as an illegal address a process's context is lost."""
    try:
        device.synchronize()
    except Exception:
        return False
    return True


@dataclass(frozen=True)
class CapturedCall:
    """A captured call.

    Attributes:
        graph: replays the call.
        outputs: where a replay writes.
        kernels: kernel launches in it.
        launched: names of these launches, and of its fills and copies, as `list_launched` gives them.
        operations: all nodes, copies and fills included.
    """

    graph: torch.cuda.CUDAGraph
    outputs: tuple[torch.Tensor, ...]
    kernels: int
    launched: tuple[str, ...]
    operations: int


def capture(run: Launcher, *, strict: bool, pool: Any = None) -> CapturedCall:
    """Captures one call on the current stream.

    Args:
        run: the call.
        strict: whether calls that may wait for the device, such as an allocation by the driver, break the capture
            wherever they are made. If not, only those made on the capturing stream do.
        pool: handle of memory that the graph shares with others, which must not be replayed at the same time.

    Raises:
        RuntimeError: what the call raised first, if the capture broke.
    """
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # a capture gets no memory that is cached, and graphs before this one have left theirs
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    graph.capture_begin(pool=pool, capture_error_mode="global" if strict else "relaxed")
    try:
        outputs = run()
    except Exception:
        with suppress(RuntimeError):  # says only that there was an error
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
    """Tells the parent of a case that raises, tampers or is wrong, and swallows the exception; the worker is to end.

    What a case has replaced is found when the next step begins, so none is timed with what another has left.

    Args:
        channel: to the parent.
        device: where the case runs.
        roots: the catalog's folders, of whose files the line is told.

    Raises:
        Exception: what is raised outside any case's step.
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
    """A kernel has replaced functions that it is judged with, or set a part of the L2 aside."""


class TamperWatch:
    """What kernels are judged with, as it is when this is made: before any kernel is imported.

    Args:
        device: where kernels run.
    """

    def __init__(self, device: WorkerDevice) -> None:
        self._functions = FunctionSnapshot()
        self._l2 = _watch_l2(device) if isinstance(device, CudaDevice) else None

    def check(self) -> None:
        """Compares; the setting of the L2 is put back.

        Raises:
            TamperingError: if something is another now.
        """
        if names := self._functions.replaced():
            raise TamperingError(told(names))
        if self._l2 and (changes := self._l2.changes()):
            raise TamperingError(f"it sets the L2 cache aside for itself: {' and '.join(changes)}")


def _watch_l2(device: CudaDevice) -> PersistingL2:
    from gdnbench.measuring.worker.l2_setting import PersistingL2  # with the driver, which a CPU does not have

    return PersistingL2(device.stream.cuda_stream)
