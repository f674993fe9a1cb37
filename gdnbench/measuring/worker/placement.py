"""Where a case's tensors lie: they are made once for all kernels of a workload, and copied to other places.

Where a process's tensors lie in device memory is chance, and it matters: on an H200 at batch 1, the ratio of the same
two kernels read 1.04 in one process and 1.13 in another (docs/measuring.md). With 32 placements in turn, five processes
agree on it to 0.9 %. A serving engine's state pool is large, so a rotation is also what it sees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from pathlib import Path

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import Entry
from gdnbench.launch.bind import Launcher, load
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.measuring.protocol import BUILD_STEPS, StepBegun, Task, placement_count
from gdnbench.measuring.worker.device import BeginStep, CudaDevice
from gdnbench.model.case import Case
from gdnbench.model.workload import Workload
from gdnbench.verify.check import Oracle

KEPT_WORKSPACES = 4  # one workload's scenarios; cases come ordered by workload


class Workspaces:
    """The catalog as the worker sees it, and the inputs and the oracle's outputs by workload and scenario."""

    def __init__(self, task: Task) -> None:
        self._catalog = load_catalog(Path(root) for root in task.roots)
        self._op = self._catalog.ops[task.op]
        self._task = task
        self.scenarios = self._op.scenarios
        # Bound here, not on the class, so that the cache goes with the object.
        self.get = lru_cache(maxsize=KEPT_WORKSPACES)(self._make)

    def entry(self, case: Case) -> Entry:
        """The case's kernel."""
        return self._catalog.entries[case.variant.kernel]

    def _make(self, shape: Workload, scenario: str) -> tuple[Workspace, Oracle]:
        numerics = load_numerics(self._op, self._catalog.op_folders[self._op.name])
        seed = self._task.seed + self.scenarios.index(scenario)
        workspace = Workspace.make(self._op, numerics, shape, seed=seed, device=self._task.device, scenario=scenario)
        return workspace, numerics.oracle(workspace.inputs, workspace.scalars)


@dataclass(frozen=True)
class Placement:
    """A launcher bound to tensors at one placement, and the ranges of its inputs for the scrubber."""

    run: Launcher
    input_ranges: torch.Tensor


class Rotation:
    """A case bound to every copy of its tensors, each launched once, so that nothing loads or allocates later.

    Outputs are kept until the rotation comes round again: torch's allocator would otherwise give a kernel that
    allocates its own outputs the same place each time.

    Attributes:
        placements: all of them.
    """

    def __init__(self, workspaces: Workspaces, case: Case, copies: list[Workspace]) -> None:
        entry = workspaces.entry(case)
        bind = load(entry, case.variant, case.shape)
        placements = [
            Placement(bind(copy), list_ranges([*copy.inputs.values(), *copy.scratch.values()])) for copy in copies
        ]
        self._outputs: deque[tuple[torch.Tensor, ...]] = deque(maxlen=len(placements))
        for placement in placements:
            self.keep(placement.run())
        self.placements = tuple(placements)
        self._next: Iterator[Placement] = cycle(placements)

    def next_placement(self) -> Placement:
        """The next placement; after the last the first again."""
        return next(self._next)

    def keep(self, outputs: tuple[torch.Tensor, ...]) -> None:
        """Keeps a launch's outputs until the rotation comes to its placement again."""
        self._outputs.append(outputs)


def make_copies(workspace: Workspace) -> list[Workspace]:
    """The workspace and copies of it elsewhere in memory, as many as the limits allow."""
    count = placement_count(workspace.op.tensor_bytes(workspace.shape))
    return [workspace, *(workspace.copy() for _ in range(count - 1))]


def bind_cases(task: Task, begin: BeginStep, device: CudaDevice) -> dict[str, Rotation]:
    """Binds and launches every case once, so that nothing compiles, loads or allocates once timing begins.

    Returns:
        A rotation of each case by its id; the cases of a workload share the copies of its tensors.
    """
    workspaces = Workspaces(task)
    copies: dict[Workload, list[Workspace]] = {}
    rotations = {}
    for case in task.cases:
        begin(StepBegun(case.id, "bind", task.step_limit_s * BUILD_STEPS))
        if case.shape not in copies:
            workspace, _ = workspaces.get(case.shape, workspaces.scenarios[0])
            copies[case.shape] = [workspace] if task.plain else make_copies(workspace)
        rotations[case.id] = Rotation(workspaces, case, copies[case.shape])
        device.synchronize()
    return rotations


def list_ranges(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """(address, bytes) of each tensor as int64 [n, 2] on the GPU."""
    rows = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
    return torch.tensor(rows, dtype=torch.int64, device="cuda")
