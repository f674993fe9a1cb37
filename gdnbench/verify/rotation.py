"""Cases in turn on the placements of their workloads, with randomly drawn timed launches checked by the oracle.

A verdict before timing does not cover a kernel that is honest only until it is timed. The outputs of a drawn launch are
copied before anything else happens to them, and judged at the end of the case's round, by every gate of the op, on
inputs that no oracle had seen when the kernel was launched.
"""

from __future__ import annotations

import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import DeclarationError
from gdnbench.launch.bind import Binder, Launcher, load
from gdnbench.launch.numerics import Numerics, load_captured, load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import is_captured
from gdnbench.model.kernel import CudaKernel, Kernel, TorchKernel
from gdnbench.model.status import GateResult
from gdnbench.model.workload import Workload
from gdnbench.store.journal import BUILD_STEPS, BURN_IN, StepBegun
from gdnbench.verify.check import Oracle, check_all, check_copy, consult_oracle, name_outputs, passes_all
from gdnbench.workers.device import BeginStep, CudaDevice, WrongWhenTimedError
from gdnbench.workers.launched import TunerChoices
from gdnbench.workers.placement import (
    CapturedDraws,
    Draws,
    Placement,
    Placements,
    RenewedPlacements,
    memory_apart,
    place,
)
from gdnbench.workers.task import CHECK_SHARE, MOST_CHECKED, WARM_UPS, Task


class CheckedPlacements:
    """The placements of a workload, with the draws of its launches, and copies of checked launches' tensors.

    `check_s` has the least seconds of the check of a launch, by kind of floor; an empty kind is a kernel.
    """

    def __init__(self, placements: RenewedPlacements, draws: Draws) -> None:
        self.placements = placements
        self.draws = draws
        self.check_s: dict[str, float] = {}
        self._room = placements.room
        self._copies: list[Workspace] = []

    def clear(self) -> None:
        """Drops the copies."""
        self._copies.clear()

    @property
    def count(self) -> int:
        """Number of copied launches."""
        return len(self._copies)

    def keep(self, number: int, outputs: Sequence[torch.Tensor]) -> None:
        """Copies a launch's inputs and outputs on the current stream; WrongWhenTimedError if these are not the op's."""
        room = self._room[len(self._copies)]
        try:
            named = name_outputs(room.op, outputs, {name: each.shape for name, each in room.outputs.items()})
        except DeclarationError as error:
            raise WrongWhenTimedError(error.message) from error
        for name, tensor in self.placements.workspaces[number].inputs.items():
            room.inputs[name].copy_(tensor)
        for name, tensor in named.items():
            room.outputs[name].copy_(tensor)
        self._copies.append(replace(room, pristine=self.placements.inputs(number)))

    def judge(self, kernel: Kernel) -> tuple[GateResult, ...]:
        """The gates that the copied launches fail; empty if all are right."""
        kind = self.draws.kind
        failed: list[GateResult] = []
        with memory_apart(on_gpu=self._room[0].output_tensors[0].is_cuda):
            for copied in self._copies:
                begin_s = time.perf_counter()
                if kernel.floor == "copy":
                    gates = check_copy(copied.output_tensors, replace(copied, inputs=copied.pristine), kind)
                else:
                    gates = self._check(copied, kind)
                failed += [gate for gate in gates if not gate.passed]
                took_s = time.perf_counter() - begin_s
                self.check_s[kernel.floor] = min(took_s, self.check_s.get(kernel.floor, took_s))
        return tuple(failed)

    def _check(self, copied: Workspace, kind: str) -> tuple[GateResult, ...]:
        expected = consult_oracle(replace(copied, inputs=copied.pristine), self.draws.numerics)
        if passes_all(copied, copied.output_tensors, expected):
            return ()
        return check_all(copied, copied.output_tensors, expected, kind)


@dataclass(eq=False)
class TimedChecks:
    """The checks of one case, whose rounds have `untimed` and then `timed` launches."""

    kernel: Kernel
    at: CheckedPlacements
    untimed: int
    timed: int

    def __post_init__(self) -> None:
        self._random = random.Random()  # from the system's entropy: a kernel must not foresee it
        self._launches = 0
        self._wanted = 0
        self._begin_s = self._round_s = math.nan

    def open(
        self, places: Sequence[int], number: int, *, is_first: bool = False, is_last: bool = False, timed: int = 0
    ) -> None:
        """Prepares a round's placements and draws how many launches are checked; `timed` ones, if not as before.

        They are the most in a timer's first round, and one or more in its last.
        """
        self.timed = timed or self.timed
        self._launches = 0
        self.at.clear()
        self._wanted = MOST_CHECKED if is_first or number == BURN_IN else max(self._draw_number(), int(is_last))
        self._begin_s = time.perf_counter()
        self.at.draws.begin(number)
        for each in places:
            self.at.placements.prepare(each, self.at.draws, self.kernel.in_place)

    def take(self, number: int, outputs: Sequence[torch.Tensor]) -> None:
        """Draws, after each launch, whether it is checked, and then copies its tensors.

        For k of n launches, each with equal probability, a launch is drawn with the probability (still wanted) / (still
        to come) (Knuth, The Art of Computer Programming, volume 2, 3.4.2, algorithm S). Raises WrongWhenTimedError if a
        drawn launch returned something else than the op's outputs.
        """
        self._launches += 1
        to_come = self.untimed + self.timed - self._launches + 1
        if self._launches <= self.untimed or self.kernel.is_unchecked or to_come < 1:
            return
        if self._random.randrange(to_come) < self._wanted - self.at.count:
            self.at.keep(number, outputs)

    def renew(self, number: int) -> None:
        """Gives the placement other inputs and poisoned outputs, after each launch."""
        self.at.placements.renew(number, self.at.draws, self.kernel.in_place)

    def judge(self) -> int:
        """Checks a finished round's drawn launches by the oracle; returns how many, or raises WrongWhenTimedError."""
        self._round_s = time.perf_counter() - self._begin_s
        for gate in self.at.judge(self.kernel):
            raise WrongWhenTimedError(f"right when it was verified, wrong when it was timed: {gate.reason}")
        return self.at.count

    def _draw_number(self) -> int:
        """Number of checks that `CHECK_SHARE` of a round's time affords, its fraction by chance; at first the most."""
        check_s = self.at.check_s.get(self.kernel.floor)
        if check_s is None or math.isnan(self._round_s):
            return MOST_CHECKED
        paid_for = min(MOST_CHECKED, CHECK_SHARE * self._round_s / check_s)
        return int(paid_for) + (self._random.random() < paid_for % 1)


class Workspaces:
    """The worker's catalog, and the inputs and the oracle's outputs by workload and scenario."""

    def __init__(self, task: Task) -> None:
        only = "" if task.path else task.op  # a path compares with a kernel of another op
        self.catalog = load_catalog((Path(root) for root in task.roots), only=only)
        self.op = self.catalog.ops[task.op]
        self.task = task
        self._kinds = 1 + len(self.op.scenarios)
        # Keeps the workspaces of one workload, since cases are ordered by workload. An attribute of the object, so that
        # the cache is freed with it.
        self.workspace = lru_cache(maxsize=self._kinds)(self.draw)
        self._expected: OrderedDict[tuple[Workload, str], Oracle] = OrderedDict()

    def entry(self, case: Case) -> CatalogEntry:
        """The case's kernel."""
        return self.catalog.entries[case.variant.kernel]

    def kinds(self, workload: Workload) -> tuple[str, ...]:
        """The kinds of inputs on which a case is verified: the timed one, then all scenarios."""
        return self.op.inputs_to_verify(workload)

    def draw(self, workload: Workload, kind: str | None = None) -> Workspace:
        """Inputs of a kind, by default the timed one, drawn by the task's seed, and poisoned outputs."""
        kind = kind or self.kinds(workload)[0]
        if is_captured(kind):
            return self._captured(workload, kind)
        seed = self.task.seed + self.op.seed_offset(kind)
        return Workspace.make(self.op, self.numerics, workload, seed=seed, device=self.task.device, scenario=kind)

    def _captured(self, workload: Workload, profile: str) -> Workspace:
        path, sha256 = self.task.captured[profile]
        device = self.task.device
        _, scalars = self.numerics.make_inputs(workload, self.task.seed, device, self.op.scenarios[0])
        inputs = load_captured(Path(path), sha256, device)
        return Workspace.holding(self.op, workload, inputs, scalars, device=device)

    def draws(self, workload: Workload) -> Draws:
        """The `Draws` of the timed launches at a workload."""
        kind = self.kinds(workload)[0]
        of_kind = CapturedDraws if is_captured(kind) else Draws
        return of_kind(self.draw(workload), self.numerics, kind, self.task.draw_key)

    def get(self, workload: Workload, scenario: str) -> tuple[Workspace, Oracle]:
        """A workspace, and the oracle's outputs for it: of its own inputs where no kernel was given them yet."""
        drawn = self.workspace.cache_info().misses
        workspace = self.workspace(workload, scenario)
        if self.workspace.cache_info().misses > drawn and (workload, scenario) not in self._expected:
            self._expect(workload, scenario, workspace)
        return workspace, self.expected(workload, scenario)

    def expected(self, workload: Workload, scenario: str) -> Oracle:
        """The oracle's outputs, on inputs drawn again, since kernels may have changed the ones they were given."""
        if (workload, scenario) not in self._expected:
            self._expect(workload, scenario, self.draw(workload, scenario))
        return self._expected[workload, scenario]

    def _expect(self, workload: Workload, scenario: str, workspace: Workspace) -> None:
        self._expected[workload, scenario] = consult_oracle(workspace, self.numerics)
        if len(self._expected) > self._kinds:
            self._expected.popitem(last=False)

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
    def numerics(self) -> Numerics:
        """The op's numerics."""
        return load_numerics(self.op, self.catalog.op_folders[self.op.name])


class Rotation:
    """A case on the placements of its workload, bound to those of one window, round by round.

    Without `checks` of its launches, which give each new inputs, the tensors stay unchanged. `is_in_place`: a launch
    changes the inputs of the next at its placement, until renewed. `bound` has launchers, by number of a placement.
    `runs_python`: a launch runs Python that is not gdnbench's.
    """

    def __init__(
        self,
        bind: Binder,
        placements: Placements,
        checks: TimedChecks | None = None,
        *,
        is_in_place: bool = False,
        runs_python: bool = True,
        bound: dict[int, Launcher] | None = None,
    ) -> None:
        self.is_in_place = is_in_place
        self.runs_python = runs_python
        self.tuned: tuple[str, ...] = ()
        self._bind = bind
        self._bound = {} if bound is None else bound
        self._placements = placements
        self._checks = checks
        self._visited: list[tuple[int, int | None]] = []
        self.open(0)
        self._launch_once()

    def open(self, position: int, number: int = BURN_IN, *, is_last: bool = False, timed: int = 0) -> None:
        """Binds the case to a round's window, by its position in the process; its number in the run seeds inputs.

        The round has `timed` launches, by default as many as the last.
        """
        self._visited.clear()
        numbers = self._placements.numbers(position)
        self.placements = tuple(map(self._place, numbers))
        self._next = cycle(self.placements)
        if self._checks:
            self._checks.open(numbers, number, is_first=position == 0, is_last=is_last, timed=timed)

    def _place(self, number: int) -> Placement:
        if number not in self._bound:
            self._bound[number] = self._bind(self._placements.workspaces[number])
        return Placement(number, self._bound[number], self._placements.ranges(number))

    def _launch_once(self) -> None:
        """Launches at each placement, and until a case's own outputs are spread: nothing loads or allocates later."""
        for placement in self.placements:
            allocated = self._launch(placement)
        while allocated and not self._placements.are_outputs_spread:
            self._launch(next(self._next))

    def _launch(self, placement: Placement) -> bool:
        allocated = self.keep(placement, placement.run())
        self.renew(placement)
        return bool(allocated)

    def warm_up(self, flush: Callable[[], None], after: Callable[[torch.Tensor, Sequence[torch.Tensor]], None]) -> None:
        """Launches at each placement, flushed, and calls `after` with what was launched on: ranges, and own outputs."""
        for placement in self.placements:
            flush()
            after(placement.ranges, self.keep(placement, placement.run()))
            self.renew(placement)

    def next_placement(self) -> Placement:
        """The next placement of the window; after the last the first again."""
        return next(self._next)

    def keep(self, placement: Placement, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Registers a launch; returns the outputs that it allocated. Raises WrongWhenTimedError for strange ones."""
        if self._checks:
            self._checks.take(placement.number, outputs)
        own = self._placements.own(placement.number, outputs)
        self._visited.append((placement.number, self._placements.keep(own)))
        return own

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
    return WARM_UPS, task.samples[case_id]


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
    loaded: dict[tuple[Variant, Workload], tuple[Binder, dict[int, Launcher]]] = {}
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
        if (case.variant, sizes) not in loaded:
            loaded[case.variant, sizes] = load(entry, case.variant, case.workload), {}
        bind, bound = loaded[case.variant, sizes]
        checks = None
        if case.id not in task.left_alone:
            checks = TimedChecks(entry.kernel, checked[case.workload], *launches_of(task, case.id))
        rotations[case.id] = Rotation(
            bind,
            placements[sizes],
            checks,
            is_in_place=bool(entry.kernel.in_place),
            runs_python=isinstance(entry.kernel, TorchKernel),
            bound=bound,
        )
        device.synchronize()
        if not isinstance(entry.kernel, CudaKernel):
            rotations[case.id].tuned = choices.of(entry.kernel.name, task.launched.get(case.id, ()))
    return rotations
