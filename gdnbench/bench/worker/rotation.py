"""Launches a case on one copy of its tensors after the other, so that no single placement in memory is measured.

Where a process's tensors lie in device memory is chance, and it matters: on an H200 at batch 1, the ratio of the same
two kernels read 1.04 in one process and 1.13 in another (docs/measuring.md). With 32 placements in turn, five processes
agree on it to 0.9 %. A serving engine's state pool is large, so a rotation is also what it sees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import torch

from gdnbench.bench.worker.scrub import list_ranges
from gdnbench.bench.worker.workload import Workload
from gdnbench.launch import Launcher, Workspace, load
from gdnbench.model import Case

MOST_COPIES = 32
MOST_BYTES = 2 << 30  # per shape; one copy of a large batch covers so many pages that it averages by itself


@dataclass(frozen=True)
class Turn:
    """One placement: a launcher bound to it, and its inputs' ranges for the scrubber."""

    run: Launcher
    input_ranges: torch.Tensor


class Rotation:
    """A case bound to every copy of its tensors, each launched once, so that nothing loads or allocates later.

    Outputs are kept until the rotation comes round again: torch's allocator would otherwise give a kernel that
    allocates its own outputs the same place each time.

    Attributes:
        turns: every placement.
    """

    def __init__(self, workload: Workload, case: Case, copies: list[Workspace]) -> None:
        entry = workload.entry(case)
        bind = load(entry, case.variant, case.shape)
        turns = [Turn(bind(copy), list_ranges(copy.inputs.values())) for copy in copies]
        self._outputs: deque[tuple[torch.Tensor, ...]] = deque(maxlen=len(turns))
        for turn in turns:
            self.keep(turn.run())
        self.turns = tuple(turns)
        self._next: Iterator[Turn] = cycle(turns)

    def turn(self) -> Turn:
        """The next placement."""
        return next(self._next)

    def keep(self, outputs: tuple[torch.Tensor, ...]) -> None:
        """Holds a launch's outputs for one turn of the rotation."""
        self._outputs.append(outputs)


def make_copies(workspace: Workspace) -> list[Workspace]:
    """The workspace and copies of it elsewhere in memory, as many as the limits allow."""
    nbytes = workspace.op.traffic_bytes(workspace.shape)
    count = max(1, min(MOST_COPIES, MOST_BYTES // nbytes))
    return [workspace, *(workspace.copy() for _ in range(count - 1))]
