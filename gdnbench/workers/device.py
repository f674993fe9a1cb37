"""The device of a worker, and the detection of kernels that tamper with their judge or leave threads behind.

A kernel called through Python runs in the process that verifies and times it, and could make every gate pass, or every
clock slow. The functions by which it is judged, under their names, and their code are compared, before kernels are
imported and after each step. Code in the same process can find and replace this comparison, too.

Threads that a kernel leaves behind may work while others are verified or timed. Python reports which function each of
its threads runs. Other threads and streams have no known owner, since torch and the driver start some, too; work on
another stream is missing from a replay.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Protocol, Self

import torch
from cuda.bindings import driver

from gdnbench.errors import tell_raised
from gdnbench.launch.bind import Launcher
from gdnbench.model.status import Status
from gdnbench.store.journal import EventChannel, Examined, StepBegun
from gdnbench.wording import first_of
from gdnbench.workers.launched import PersistingL2, graph_nodes, list_launched

_OWN = "gdnbench."
# Of other modules only what the harness calls, since libraries replace functions, too, as torch.compile does with
# torch.manual_seed.
_NAMES: Mapping[ModuleType, tuple[str, ...]] = {
    builtins: (
        "abs", "all", "any", "callable", "float", "getattr", "int", "isinstance", "len", "map", "max", "min", "round",
        "sorted", "sum", "zip",
    ),
    time: ("monotonic", "perf_counter", "perf_counter_ns", "sleep", "time", "time_ns"),
    os: ("write",),
    json: ("dumps", "loads"),
    torch: (
        "Tensor", "as_tensor", "cat", "empty", "empty_like", "equal", "full", "isfinite", "isnan", "stack", "tensor",
        "where", "zeros",
    ),
    torch.cuda: ("CUDAGraph", "Event", "Stream", "current_device", "current_stream", "graph", "stream", "synchronize"),
    timeit: ("Timer", "default_timer"),
}  # fmt: skip
_CLASSES: tuple[type, ...] = (
    torch.Tensor, torch.cuda.Event, torch.cuda.Stream, torch.cuda.CUDAGraph, timeit.Timer,
)  # fmt: skip
MOST_NAMED = 3


class FunctionSnapshot:
    """The functions by which kernels are judged, as they are at construction, before any kernel is imported."""

    def __init__(self) -> None:
        modules = [each for name, each in sys.modules.items() if name.startswith(_OWN) and isinstance(each, ModuleType)]
        own = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
        classes = (*(each for each in own if each.__module__.startswith(_OWN)), *_CLASSES)
        named = {f"{each.__module__}.{each.__qualname__}": each for each in classes}
        places: list[tuple[str, Mapping[str, object], tuple[str, ...]]]
        places = [(module.__name__, vars(module), tuple(vars(module))) for module in modules]
        places += [(module.__name__, vars(module), names) for module, names in _NAMES.items()]
        places += [(name, vars(each), tuple(vars(each))) for name, each in named.items()]
        held: list[tuple[str, Mapping[str, object], str, object]] = [
            (f"{name}.{key}", namespace, key, value)
            for name, namespace, keys in places
            for key in keys
            if callable(value := namespace.get(key)) or isinstance(value, property | staticmethod | classmethod)
        ]
        # Apart, since some thousand are compared in every round of every case.
        self._functions: list[tuple[str, Mapping[str, object], str, FunctionType, CodeType]] = [
            (name, namespace, key, value, value.__code__)
            for name, namespace, key, value in held
            if isinstance(value, FunctionType)
        ]
        self._others = [each for each in held if not isinstance(each[3], FunctionType)]
        self._keys = {name: (each, frozenset(vars(each))) for name, each in named.items()}

    def replaced(self) -> tuple[str, ...]:
        """Names whose object or code has changed, and new names in a class that hide inherited ones."""
        changed = [
            name
            for name, namespace, key, value, code in self._functions
            if namespace.get(key) is not value or value.__code__ is not code
        ]
        changed += [name for name, namespace, key, value in self._others if namespace.get(key) is not value]
        hiding = [
            f"{name}.{key}"
            for name, (each, keys) in self._keys.items()
            if len(vars(each)) > len(keys)
            for key in vars(each).keys() - keys
            if callable(vars(each)[key]) and any(key in vars(base) for base in each.__mro__[1:])
        ]
        return (*changed, *hiding)


def format_replaced(names: tuple[str, ...]) -> str:
    """Describes in a line what was replaced."""
    return f"it replaces functions that it is judged with: {first_of(names, MOST_NAMED)}"


class ThreadWatch:
    """Compares Python's threads, in functions of a kernel's folder, with those at construction, before its import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._before = frozenset(sys._current_frames())

    def notes(self) -> tuple[str, ...]:
        """A line for each new thread that runs a function of the kernel's files."""
        new = (frame for ident, frame in sys._current_frames().items() if ident not in self._before)
        return tuple(f"a thread is left behind, which runs {where}" for where in map(self._outermost, new) if where)

    def _outermost(self, frame: FrameType) -> str:
        outermost = ""
        for at, _ in walk_stack(frame):
            code = at.f_code
            if Path(code.co_filename).resolve().is_relative_to(self._folder):
                outermost = f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
        return outermost


TimedCall = Callable[[], object]


class CpuDevice:
    """The CPU, whose work is done when the call returns."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """One thread, for checks as for times: torch.compile makes other code for several, in as many seconds again."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def synchronize(self) -> None:
        """A CPU has nothing to wait for."""

    def time_us(self, run: TimedCall, calls: int) -> float:
        """Mean time of a call by the wall clock, µs."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls * 1e6


class CudaDevice:
    """One GPU, device 0 of this process, with a stream of the worker's own, which exposes work on the default one."""

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def current(self) -> AbstractContextManager[object]:
        """Makes the worker's stream current."""
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


WorkerDevice = CpuDevice | CudaDevice


def is_alive(device: WorkerDevice) -> bool:
    """Whether the device responds; after a fault such as an illegal address the process's context is lost."""
    try:
        device.synchronize()
    except Exception:
        return False
    return True


@dataclass(frozen=True)
class CapturedCall:
    """A call captured into a CUDA graph, whose replay writes to `outputs`; `operations` are kernels, copies, fills."""

    graph: torch.cuda.CUDAGraph
    outputs: tuple[torch.Tensor, ...]
    kernels: int
    launched: tuple[str, ...]
    operations: int


def capture(run: Launcher, *, strict: bool, pool: Any = None) -> CapturedCall:
    """Captures one call on the current stream; if the capture breaks, raises what the call raised first.

    `strict`: calls that may wait for the device, such as an allocation by the driver, break the capture on any stream,
    otherwise only on the capturing one. `pool` is memory that the graph shares with others that are never replayed at
    once.
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
    kinds = [kind for _, kind in graph_nodes(handle)]
    kernels = kinds.count(driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL)
    return CapturedCall(graph, tuple(outputs), kernels, list_launched(handle), len(kinds))


class BeginStep(Protocol):
    """Announces a step to the parent; `check`: whether what ran since the last one may have replaced functions."""

    def __call__(self, step: StepBegun, *, check: bool = True) -> None:
        """Announces the step, after the check."""


@contextmanager
def report_failure(channel: EventChannel, device: WorkerDevice, roots: Sequence[str]) -> Iterator[BeginStep]:
    """Reports a case that raises, tampers or is wrong to the parent, and swallows the exception; the worker must end.

    Replaced functions are found when the next step that checks begins. Files and lines below `roots` are reported.
    Exceptions outside any case's step are raised.
    """
    case_id, watch = "", TamperWatch(device)

    def begin(step: StepBegun, *, check: bool = True) -> None:
        nonlocal case_id
        if check:
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
    """Detects changes since its construction, before any kernel's import, of functions of the judge and of the L2."""

    def __init__(self, device: WorkerDevice) -> None:
        self._functions = FunctionSnapshot()
        self._l2 = PersistingL2(device.stream.cuda_stream) if isinstance(device, CudaDevice) else None

    def check(self) -> None:
        """Raises TamperingError if something has changed; the setting of the L2 is restored."""
        if names := self._functions.replaced():
            raise TamperingError(format_replaced(names))
        if self._l2 and (changes := self._l2.changes()):
            raise TamperingError(f"it sets the L2 cache aside for itself: {' and '.join(changes)}")


class TimeLimit:
    """Raises TimeoutError within its `with`, once, after some seconds, for Python code in a process's first thread.

    Other code is stopped by the process that watches this one. `is_over`: the error was raised, and perhaps caught.
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


class WrongWhenTimedError(Exception):
    """A timed launch that differs from its verification."""
