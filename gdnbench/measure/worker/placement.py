"""Placements of tensors: a workload's tensors are made once for all kernels, and copied to other places.

The place of a process's tensors in device memory is random, and matters: on an H200 at batch 1, the ratio of the same
two kernels read 1.04 in one process and 1.13 in another (docs/measuring.md). With 32 placements in turn, five processes
agree on it to 0.9 %. A serving engine's state pool is large, so its launches see many placements, too.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, cycle
from pathlib import Path

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.launch.bind import Binder, Launcher, load
from gdnbench.launch.numerics import Numerics, load_captured, load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case
from gdnbench.model.declaration import is_captured
from gdnbench.model.workload import Workload
from gdnbench.store.journal import BUILD_STEPS, BURN_IN, StepBegun
from gdnbench.verify.check import Oracle, consult_oracle
from gdnbench.verify.rotation import CheckedPlacements, TimedChecks
from gdnbench.workers.device import BeginStep, CudaDevice
from gdnbench.workers.launched import TunerChoices
from gdnbench.workers.placement import CapturedDraws, Draws, RenewedPlacements
from gdnbench.workers.task import Task, window_count, window_size


class Workspaces:
    """The worker's catalog, and the inputs and the oracle's outputs by workload and scenario."""

    def __init__(self, task: Task) -> None:
        self._catalog = load_catalog(Path(root) for root in task.roots)
        self._op = self._catalog.ops[task.op]
        self._task = task
        self._kinds = 1 + len(self._op.scenarios)
        # Keeps the workspaces of one workload, since cases are ordered by workload. An attribute of the object, so that
        # the cache is freed with it.
        self.workspace = lru_cache(maxsize=self._kinds)(self.draw)
        self._expected: OrderedDict[tuple[Workload, str], Oracle] = OrderedDict()

    def entry(self, case: Case) -> CatalogEntry:
        """The case's kernel."""
        return self._catalog.entries[case.variant.kernel]

    def kinds(self, workload: Workload) -> tuple[str, ...]:
        """The kinds of inputs on which a case is verified: the timed one, then all scenarios."""
        return self._op.inputs_to_verify(workload)

    def draw(self, workload: Workload, kind: str | None = None) -> Workspace:
        """Inputs of a kind, by default the timed one, drawn by the task's seed, and poisoned outputs."""
        kind = kind or self.kinds(workload)[0]
        if is_captured(kind):
            return self._captured(workload, kind)
        seed = self._task.seed + self._op.seed_offset(kind)
        return Workspace.make(self._op, self._numerics, workload, seed=seed, device=self._task.device, scenario=kind)

    def _captured(self, workload: Workload, profile: str) -> Workspace:
        """The inputs of a file, with the op's scalars at its workload."""
        path, sha256 = self._task.captured[profile]
        device = self._task.device
        _, scalars = self._numerics.make_inputs(workload, self._task.seed, device, self._op.scenarios[0])
        inputs = load_captured(Path(path), sha256, device)
        return Workspace.holding(self._op, workload, inputs, scalars, device=device)

    def draws(self, workload: Workload) -> Draws:
        """The `Draws` of the timed launches at a workload."""
        kind = self.kinds(workload)[0]
        of_kind = CapturedDraws if is_captured(kind) else Draws
        return of_kind(self.draw(workload), self._numerics, kind, self._task.draw_key)

    def get(self, workload: Workload, scenario: str) -> tuple[Workspace, Oracle]:
        """A workspace, and the oracle's outputs for it."""
        return self.workspace(workload, scenario), self.expected(workload, scenario)

    def expected(self, workload: Workload, scenario: str) -> Oracle:
        """The oracle's outputs, on inputs drawn again, since kernels may have changed the ones they were given."""
        key = (workload, scenario)
        if key not in self._expected:
            self._expected[key] = consult_oracle(self.draw(workload, scenario), self._numerics)
            if len(self._expected) > self._kinds:
                self._expected.popitem(last=False)
        return self._expected[key]

    def forget_expected(self) -> None:
        """Overwrites and drops the oracle's outputs, since an allocator does not clear memory that it reuses."""
        while self._expected:
            _, oracle = self._expected.popitem()
            for tensor in (*oracle.outputs.values(), *oracle.roundoff.values()):
                tensor.untyped_storage().fill_(0)  # type: ignore[attr-defined]

    def forget_inputs(self) -> None:
        """Drops the workspaces, so that the next case's inputs are drawn again."""
        self.workspace.cache_clear()

    @property
    def _numerics(self) -> Numerics:
        return load_numerics(self._op, self._catalog.op_folders[self._op.name])


@dataclass(frozen=True)
class Placement:
    """A launcher bound to the tensors of one placement; `input_ranges` are of inputs and scratch, for the scrubber."""

    number: int
    run: Launcher
    input_ranges: torch.Tensor


class Placements:
    """The tensors of a workload at all of their placements, which the cases of the workload share.

    Each round uses one window of them, from the first again after the last. The place of tensors is random, and worth
    percents at batch 1 on an H200: were it the same in every round, an interval over rounds would not include its
    effect.
    """

    def __init__(self, workspace: Workspace, window: int, windows: int) -> None:
        self.window = window
        self.workspaces = [workspace, *(workspace.copy() for _ in range(window * windows - 1))]
        self._ranges: dict[tuple[int, int], torch.Tensor] = {}
        self._allocated: deque[tuple[torch.Tensor, ...]] = deque(maxlen=len(self.workspaces))
        self._numbers: dict[int, int] = {}

    def numbers(self, position: int) -> list[int]:
        """The window of the round at a position in the process's order."""
        first = position * self.window % len(self.workspaces)
        return list(range(first, first + self.window))

    def ranges(self, number: int) -> torch.Tensor:
        """The ranges of a placement's inputs and of its scratch tensors so far."""
        copy = self.workspaces[number]
        key = (number, len(copy.scratch))
        if key not in self._ranges:
            self._ranges[key] = list_ranges([*copy.inputs.values(), *copy.scratch.values()])
        return self._ranges[key]

    def keep(self, number: int, outputs: tuple[torch.Tensor, ...]) -> int | None:
        """Keeps outputs that the kernel allocated itself for as many launches as there are placements.

        torch's allocator would otherwise reuse the same memory each time. Returns the number of their place, or None
        for outputs that were there before.
        """
        given = {tensor.data_ptr() for tensor in self.workspaces[number].outputs.values()}
        own = tuple(tensor for tensor in outputs if tensor.data_ptr() not in given)
        if not own:
            return None
        self._allocated.append(own)
        largest = max(own, key=lambda tensor: tensor.numel() * tensor.element_size())
        return self._numbers.setdefault(largest.data_ptr(), len(self._numbers))

    @property
    def are_outputs_spread(self) -> bool:
        """Whether as many outputs are kept as there are placements, so that launches need no memory from the driver."""
        return len(self._allocated) == self._allocated.maxlen


class Rotation:
    """A case on the placements of its workload, bound to those of one window, round by round.

    Args:
        checks: checks of its launches, with new inputs for each; None leaves the tensors unchanged.
        warm_ups: placements of the next window for the launches before the samples; 0 for the window's own.
        is_in_place: whether a launch changes the inputs of the next at its placement, until renewed.
    """

    def __init__(
        self,
        bind: Binder,
        placements: Placements,
        checks: TimedChecks | None = None,
        warm_ups: int = 0,
        *,
        is_in_place: bool = False,
    ) -> None:
        self.is_in_place = is_in_place
        self.tuned: tuple[str, ...] = ()
        self._bind = bind
        self._placements = placements
        self._checks = checks
        self._warm_ups = warm_ups
        self._visited: list[tuple[int, int | None]] = []
        self.open(0)
        self._launch_once()

    def open(self, position: int, number: int = BURN_IN, *, is_last: bool = False) -> None:
        """Binds the case to a round's window, by its position in the process; its number in the run seeds inputs."""
        self._visited.clear()
        numbers = self._placements.numbers(position)
        elsewhere = self._placements.numbers(position + 1)[: self._warm_ups]
        self.placements = tuple(map(self._place, numbers))
        self._next = chain([*map(self._place, elsewhere)], cycle(self.placements))
        if self._checks:
            self._checks.open([*numbers, *elsewhere], number, is_last=is_last)

    def _place(self, number: int) -> Placement:
        run = self._bind(self._placements.workspaces[number])
        return Placement(number, run, self._placements.ranges(number))

    def _launch_once(self) -> None:
        """Launches at each placement, and until a case's own outputs are spread: nothing loads or allocates later."""
        for placement in self.placements:
            allocated = self._launch(placement)
        while allocated and not self._placements.are_outputs_spread:
            self._launch(next(self._next))

    def _launch(self, placement: Placement) -> bool:
        outputs = placement.run()
        allocated = self.keep(placement, outputs)
        self.renew(placement)
        return allocated

    def next_placement(self) -> Placement:
        """The next placement of the window; after the last the first again."""
        return next(self._next)

    def keep(self, placement: Placement, outputs: tuple[torch.Tensor, ...]) -> bool:
        """Registers a launch and its outputs; returns whether it allocated them.

        Raises WrongWhenTimedError if the launch is to be checked and returned something else than the op's outputs.
        """
        if self._checks:
            self._checks.take(placement.number, outputs)
        allocated = self._placements.keep(placement.number, outputs)
        self._visited.append((placement.number, allocated))
        return allocated is not None

    def renew(self, placement: Placement) -> None:
        """Gives the placement other inputs and poisoned outputs, once the launch's outputs are no longer needed."""
        if self._checks:
            self._checks.renew(placement.number)

    def judge(self) -> int:
        """Checks launches of the finished round by the oracle; returns their number or raises WrongWhenTimedError."""
        return self._checks.judge() if self._checks else 0

    def visited(self, launches: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the placements of the last launches, and of the outputs that the case allocates, empty if none."""
        last = self._visited[-launches:]
        return tuple(number for number, _ in last), tuple(own for _, own in last if own is not None)


def samples_after_warm_ups(task: Task, case_id: str) -> tuple[int, int]:
    """Numbers of untimed and of timed launches of a round, if each sample is one launch."""
    return task.warm_ups, task.samples[case_id]


def bind_cases(
    task: Task,
    begin: BeginStep,
    device: CudaDevice,
    launches_of: Callable[[Task, str], tuple[int, int]] = samples_after_warm_ups,
) -> dict[str, Rotation]:
    """Binds and launches every case, so that nothing compiles, loads or allocates once timing begins.

    The cases of a workload share the placements of its tensors. `launches_of` returns the numbers of untimed and of
    timed launches of a case's round. Returns rotations by case id.
    """
    workspaces = Workspaces(task)
    placements: dict[Workload, Placements] = {}  # shared by workloads that differ only in the profile
    renewed: dict[Workload, RenewedPlacements] = {}
    checked: dict[Workload, CheckedPlacements] = {}
    rotations = {}
    choices = TunerChoices()
    for case in task.cases:
        begin(StepBegun(case.id, "bind", task.step_limit_s * BUILD_STEPS))
        sizes = case.workload.at("")
        if sizes not in placements:
            placements[sizes] = place(workspaces.draw(case.workload), task)
            renewed[sizes] = RenewedPlacements(placements[sizes].workspaces)
        if case.workload not in checked:
            checked[case.workload] = CheckedPlacements(renewed[sizes], workspaces.draws(case.workload))
        entry = workspaces.entry(case)
        bind = load(entry, case.variant, case.workload)
        checks = None
        if case.id not in task.left_alone:
            checks = TimedChecks(entry.kernel, checked[case.workload], *launches_of(task, case.id))
        warm_ups, is_in_place = task.warm_ups if task.cold_tlb else 0, bool(entry.kernel.in_place)
        rotations[case.id] = Rotation(bind, placements[sizes], checks, warm_ups, is_in_place=is_in_place)
        device.synchronize()
        rotations[case.id].tuned = choices.of(entry.kernel.name, task.launched.get(case.id, ()))
    return rotations


def place(workspace: Workspace, task: Task) -> Placements:
    """A workload's tensors at as many placements as the task allows; at one for a plain task."""
    if task.plain:
        return Placements(workspace, 1, 1)
    nbytes = workspace.op.tensor_bytes(workspace.workload)
    window = window_size(nbytes)
    if task.cold_tlb:
        window = max(1, min(max(task.samples.values()), task.placed_bytes // (2 * nbytes)))
    windows = window_count(nbytes, window, len(task.order), task.placed_bytes)
    return Placements(workspace, window, max(windows, 2) if task.cold_tlb else windows)


def list_ranges(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """(address, bytes) of each tensor as int64 [n, 2] on the GPU."""
    rows = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
    return torch.tensor(rows, dtype=torch.int64, device="cuda")
