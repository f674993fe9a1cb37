"""The task of a worker, a file that its parent writes, and the main function of a worker, which answers with events."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from msgspec import to_builtins

from gdnbench.codec import convert
from gdnbench.errors import GdnbenchError, tell_raised
from gdnbench.model.case import Case
from gdnbench.model.declaration import ParamValue
from gdnbench.model.kernel import Device
from gdnbench.model.status import Clock
from gdnbench.model.workload_spec import WorkloadSpec
from gdnbench.process.worker import die_with_parent
from gdnbench.store.journal import BURN_IN, EventChannel, Refused, Started, StepBegun

T = TypeVar("T")

MOST_PLACEMENTS = 32  # placements of a window
MOST_WINDOW_BYTES = 2 << 30  # one copy of a large batch covers enough pages to average over them
MOST_PLACED_BYTES = 16 << 30  # all windows of a workload: from B=64 on, fresh windows change nothing
WARM_UPS = MOST_PLACEMENTS + 1
"""Untimed launches before the samples of a round: one more than a window has placements.

The first launch on a placement misses all its address translations (on an H200, FLA at B=8 takes 7 % longer:
docs/measuring.md), so samples begin with the second lap.
"""
CPU_CALLS_PER_SAMPLE = 3  # two to warm up
# Time of a cold GPU sample beside the kernel, on an H200: L2 flush, blocking kernel, scrubbing, the host.
GPU_SAMPLE_US = 100.0
CHECK_SHARE = 0.05
"""Relative time that checking timed launches against the oracle may add to the rounds."""
MOST_CHECKED = 2  # checked launches of a round: each needs memory for all tensors of the workload


def window_size(tensor_bytes: int, samples: int) -> int:
    """Number of placements between which a round's launches alternate, for inputs and outputs of `tensor_bytes`.

    A round of fewer `samples` than placements would leave some of them, and the memory that they take, unused.
    """
    return max(1, min(MOST_PLACEMENTS, samples, MOST_WINDOW_BYTES // max(tensor_bytes, 1)))


def window_count(tensor_bytes: int, window: int, rounds: int, most_bytes: int) -> int:
    """Number of windows of placements: one for each round, burn-in included, while `most_bytes` hold them all."""
    return max(1, min(rounds, most_bytes // max(window * tensor_bytes, 1)))


def file_of(record: Path, number: int, kind: str) -> Path:
    """The path of a round's file beside NVBench's `record`; `kind` is `bin` for times, `freqs-bin` for clocks."""
    return record.with_name(f"{record.name}-{kind}") / f"{number}.bin"


class Phase(StrEnum):
    """A kind of a worker's work."""

    EXAMINE = "examine"  # import, build, verify, launch, capture
    INTERPRET = "interpret"  # verify Triton and CUDA kernels in interpreters
    REPLAY = "replay"  # run a program of events over a pool of states
    MEASURE = "measure"  # time
    WAIT = "wait"  # import what the cases need, and wait for another task


@dataclass(frozen=True)
class Pass:
    """Rounds that one timer measures, by `clock`, None for the run's own; the rest as in `Task`.

    Passes that follow another in a process have no burn-in: the GPU is warm, and every case has been launched.
    """

    clock: Clock | None
    order: tuple[tuple[str, ...], ...]
    first_round: int
    samples: dict[str, int]
    has_burn_in: bool = True


@dataclass(frozen=True)
class Task:
    """One worker's work. The fields from `order` to `record` are for measuring only."""

    phase: Phase
    device: Device
    roots: tuple[str, ...]
    op: str
    cases: tuple[Case, ...]
    seed: int
    step_limit_s: float  # seconds that an ordinary step may take; building and warming up may take several times that
    order: tuple[tuple[str, ...], ...] = ()  # case ids by round; the first round is burn-in, if there is one
    has_burn_in: bool = True
    first_round: int = 1  # number of the first round, the burn-in aside
    samples: dict[str, int] = field(default_factory=dict)  # per round, by case id
    # on a GPU, names of the functions that one call launched when checked, by case id
    launched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    plain: bool = False  # on a GPU, without rotation, scrubbing and dithering
    # secret key of the draws of launches' inputs, the same in all processes of the run; a worker removes it from the
    # file before it runs a kernel's code
    draw_key: str = ""
    placed_bytes: int = 0  # on a GPU, memory for the placements of one workload
    left_alone: tuple[str, ...] = ()  # ids of cases whose launches are neither checked nor given other inputs each time
    clock: Clock | None = None  # on a GPU, the further clock to read; None for NVBench
    further: tuple[Pass, ...] = ()  # on a GPU, measured in the same process after `order`
    record: str = ""  # path of the timer's own record
    # examining only: params of each form to try, by case id; those to keep if none is faster come first
    forms: dict[str, tuple[dict[str, ParamValue], ...]] = field(default_factory=dict)
    # examining only: scenarios to verify, by case id; a case without an entry is verified in all
    scenarios: dict[str, tuple[str, ...]] = field(default_factory=dict)
    invariance: bool = False  # examining only: whether every kind of invariance is tested, or claimed ones alone
    path: str = ""  # examining only, beside `invariance`: the label of a kernel of single steps to compare with
    # path and SHA-256 of captured inputs, by profile
    captured: dict[str, tuple[str, str]] = field(default_factory=dict)
    marks: tuple[int, ...] = ()  # numbers of tokens after which errors are taken, where sequences are followed instead
    profiles: tuple[str, ...] = ()  # of these sequences
    # replaying only: labels of the kernels, sizes as `--shape` has them, the program, and slots of the pool
    family: tuple[str, ...] = ()
    shape: str = ""
    program: str = ""
    slots: int = 0
    case_kind: ClassVar[type[Case]] = Case

    def passes(self) -> list[Self]:
        """The task of each pass, this one's own the first."""
        return [replace(self, further=()), *(replace(self, **vars(each), further=()) for each in self.further)]

    def is_last(self, position: int) -> bool:
        """Whether the round at a position of `order` is the last of the pass."""
        return position == len(self.order) - 1

    def round_number(self, position: int) -> int:
        """The number of the round at a position of `order`: 0 for the burn-in."""
        kept = position - int(self.has_burn_in)
        return BURN_IN if kept < 0 else self.first_round + kept

    def write(self, path: Path) -> None:
        """Writes the task as JSON."""
        document = {
            **vars(self),
            "cases": [case.to_dict() for case in self.cases],
            "further": [vars(each) for each in self.further],
            "workloads": to_builtins(self.cases[0].workload.spec) if self.cases else None,
        }
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def take(cls, path: Path) -> Self:
        """Reads a task, and removes from the file what kernels must not read."""
        task = cls.read(path)
        if task.draw_key:
            replace(task, draw_key="").write(path)
        return task

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a task."""
        document = json.loads(path.read_text())
        spec, cases = document.pop("workloads"), document.pop("cases")
        axes = convert(spec, WorkloadSpec) if spec else None
        fields = {name: _with_tuples(value) for name, value in document.items()}
        fields["phase"] = Phase(fields["phase"])
        fields["further"] = tuple(Pass(**each) for each in fields["further"])
        return cls(cases=tuple(cls.case_kind.from_dict(case, axes) for case in cases if axes), **fields)


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tuples(each) for key, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


_ALLOCATIONS = 100_000
"""Allocations between two collections of garbage, 700 by default: what a worker imports stays."""
START_LIMIT_S = 180.0  # torch from a cold network disk


def run_worker(read: Callable[[Path], T], work: Callable[[T, EventChannel], None]) -> NoReturn:
    """Does the task that `read` finds, and ends the process: exit code 1 if the device or a library cannot be used."""
    die_with_parent()
    task, channel = read(Path(sys.argv[1])), EventChannel(int(sys.argv[2]))
    channel.send(StepBegun("", "load torch", START_LIMIT_S))
    code = 1
    try:
        work(task, channel)
        code = 0
    except GdnbenchError as error:
        channel.send(Refused(error.message, error.hint))
    except Exception as error:
        traceback.print_exc()
        # With the place: the log goes with the folder of a run that has measured nothing.
        channel.send(Refused(tell_raised(error, Path(__file__).parents[1]), "see `gdnbench doctor`"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # skips the exit handlers of libraries: torch.compile's waits 3 s for its processes


def await_task(task: Task, channel: EventChannel, import_rest: Callable[[Task], object]) -> Task:
    """The task itself, unless it is to wait: then imports what its cases need, and returns the one that follows.

    Kernels' files that are run here are trusted. Nothing is put on the GPU, where another worker may be timing by now.
    """
    if task.phase is not Phase.WAIT:
        return task
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.launch.numerics import load_file

    started = load_torch(task.device)
    import_rest(task)
    catalog = load_catalog(map(Path, task.roots), only=task.op)
    for case in task.cases:
        load_file(catalog.entries[case.variant.kernel].source)
    channel.send(started)
    return Task.take(Path(channel.receive_line()))


def load_torch(device: Device) -> Started:
    """Imports torch and describes the device. Its 180,000 lasting objects are spared garbage collections."""
    gc.disable()
    try:
        import torch
    finally:
        gc.freeze()
        gc.set_threshold(_ALLOCATIONS, 50, 100)
        gc.enable()
    if device == "cpu":
        return Started("cpu")
    properties = torch.cuda.get_device_properties(0)
    return Started(properties.name, properties.multi_processor_count, properties.L2_cache_size)
