"""A worker's stock of inputs and oracles, made once for all kernels of a shape."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from gdnbench.bench.task import Task
from gdnbench.catalog import Entry, load_catalog
from gdnbench.launch import Workspace, load_numerics
from gdnbench.model import Case, Shape
from gdnbench.verify import Oracle

KEPT = 4  # one shape's scenarios; cases come ordered by shape


class Workload:
    """The catalog as the worker sees it, and workspaces by shape and scenario."""

    def __init__(self, task: Task) -> None:
        self._catalog = load_catalog(Path(root) for root in task.roots)
        self._op = self._catalog.ops[task.op]
        self._task = task
        self.scenarios = self._op.scenarios
        # Bound here, not on the class, so that the cache goes with the object.
        self.get = lru_cache(maxsize=KEPT)(self._make)

    def entry(self, case: Case) -> Entry:
        """The case's kernel."""
        return self._catalog.entries[case.variant.kernel]

    def _make(self, shape: Shape, scenario: str) -> tuple[Workspace, Oracle]:
        numerics = load_numerics(self._op, self._catalog.op_folders[self._op.name])
        seed = self._task.seed + self.scenarios.index(scenario)
        workspace = Workspace.make(self._op, numerics, shape, seed=seed, device=self._task.device, scenario=scenario)
        return workspace, numerics.oracle(workspace.inputs, workspace.scalars)
