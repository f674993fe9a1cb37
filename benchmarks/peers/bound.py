"""The planted kernel's variants, bound to fresh tensors. Imports torch: for workers alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from gdnbench.calibrate.measure import KERNEL, OP
from gdnbench.catalog.catalog import load_catalog
from gdnbench.launch.bind import Binder, Launcher, load
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace

from .task import Task, WorkloadTask

Call = Callable[[], object]
"""Launches a kernel once, on the stream that is current."""


class Kernels:
    """Loads each variant once; binds all of a workload's to tensors that are new each time, and keeps those.

    Tensors that are kept are not where the next ones come to lie.

    Args:
        task: the trial.
    """

    def __init__(self, task: Task) -> None:
        self._catalog = load_catalog(Path(root) for root in task.roots)
        self._op = self._catalog.ops[OP]
        self._numerics = load_numerics(self._op, self._catalog.op_folders[OP])
        self._seed = task.seed
        self._binders: dict[tuple[str, str], Binder] = {}
        self._kept: list[Workspace] = []

    def bind(self, task: WorkloadTask) -> dict[str, Call]:
        """Every kernel of a workload, by name, on the same fresh tensors, each launched once."""
        workload = self._op.workload(task.sizes)
        workspace = Workspace.make(
            self._op,
            self._numerics,
            workload,
            seed=self._seed + len(self._kept),
            device="cuda",
            scenario=self._op.scenarios[0],
        )
        self._kept.append(workspace)
        entry = self._catalog.entries[KERNEL]
        calls = {}
        for name, params in task.kernels.items():
            if (task.label, name) not in self._binders:
                variant = entry.with_params(entry.default, params)
                self._binders[task.label, name] = load(entry, variant, workload)
            calls[name] = on_current_stream(self._binders[task.label, name], workspace)
        for call in calls.values():
            call()
        torch.cuda.synchronize()
        return calls


def on_current_stream(bind: Binder, workspace: Workspace) -> Call:
    """Makes a call that follows the current stream, as a library's function does: `load` binds to one stream."""
    launchers: dict[int, Launcher] = {}

    def call() -> object:
        stream: int = torch.cuda.current_stream().cuda_stream
        if stream not in launchers:
            launchers[stream] = bind(workspace)
        return launchers[stream]()

    return call
