"""A kernel ready to be launched: its inputs drawn, its code loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from gdnbench.catalog import Entry, load_catalog
from gdnbench.launch import Workspace, load_numerics
from gdnbench.model import Case
from gdnbench.profilers.assignment import Assignment


@dataclass(frozen=True)
class Stage:
    """What a worker works on.

    Attributes:
        entry: the kernel.
        case: its params and the shape.
        workspaces: equal tensors in several places of the GPU's memory; the first where one is enough.
    """

    entry: Entry
    case: Case
    workspaces: tuple[Workspace, ...]

    @property
    def workspace(self) -> Workspace:
        """The first placement."""
        return self.workspaces[0]


def set_stage(assignment: Assignment, *, copies: int = 1) -> Stage:
    """Draws typical inputs on the GPU, at as many places as asked for."""
    catalog = load_catalog(Path(root) for root in assignment.roots)
    op = catalog.ops[assignment.op]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    case = assignment.case
    first = Workspace.make(op, numerics, case.shape, seed=assignment.seed, device="cuda", scenario=op.scenarios[0])
    workspaces = (first, *(first.copy() for _ in range(copies - 1)))
    torch.cuda.synchronize()
    return Stage(catalog.entries[case.variant.kernel], case, workspaces)
