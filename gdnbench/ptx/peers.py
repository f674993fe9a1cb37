"""Checks that other blocks of a cluster run when their shared memory is accessed: neither too early nor ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdnbench.ptx.cluster_barriers import ClusterBarriers
from gdnbench.ptx.findings import Fault, FaultLog
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import Program, PtxInstruction
from gdnbench.ptx.segments import is_strong


@dataclass
class PeerWatch:
    """The last access of each lane to each block of its cluster; only cluster barriers are known to hold blocks back.

    A cluster has `size` blocks of `threads` threads. `when` and `by`, shape (size, lanes), have by rank of the other
    block the step, 0 for none, and the instruction of the access.
    """

    clusters: ClusterBarriers
    threads: int
    size: int
    instructions: tuple[PtxInstruction, ...]
    findings: FaultLog
    when: IntArray = field(init=False)
    by: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.when, self.by = (np.zeros((self.size, len(self.clusters.known)), dtype=np.int64) for _ in range(2))

    @classmethod
    def of(cls, program: Program, clusters: ClusterBarriers, threads: int, findings: FaultLog) -> PeerWatch | None:
        """Returns a watch, or None without clusters or if blocks may signal each other by flags or atomics."""
        peers = ("shared__cluster", "global")
        tell = any(
            (each.name in {"atom", "red"} or (each.name in {"ld", "st"} and is_strong(each)))
            and (each.has(*peers) or not each.has("shared", "shared__cta", "local", "param", "const"))
            for each in program.instructions
        )
        if program.cluster == 1 or tell:
            return None
        return cls(clusters, threads, program.cluster, program.instructions, findings)

    def touch(self, lanes: IntArray, ranks: IntArray, now: int, step: int) -> None:
        """Records accesses to other blocks of the cluster, and reports those before any barrier of the cluster."""
        began = self.clusters.known.reshape(-1, self.threads).max(axis=1)[lanes // self.threads] > 0
        if not began.all():
            text = (
                "accesses the shared memory of another block with no barrier of the cluster before: it may not run yet"
            )
            self.findings.add(Fault.BARRIER, self.instructions[step].at, text, count=int(np.count_nonzero(~began)))
        self.when[ranks, lanes], self.by[ranks, lanes] = now, step

    def settle(self) -> None:
        """Reports, at the end of the run, accesses for whose end no thread of the other block waited."""
        of_cluster = self.threads * self.size
        for rank in np.flatnonzero(self.when.any(axis=1)):
            lanes = np.flatnonzero(self.when[rank])
            blocks = lanes // of_cluster * self.size + rank
            kept = np.zeros(len(lanes), dtype=bool)
            for phases in np.unique(self.clusters.known):
                waited = (self.clusters.known.reshape(-1, self.threads) == phases).any(axis=1)[blocks]
                kept |= waited & self.clusters.came_after(lanes, self.when[rank, lanes], int(phases))
            for step in np.unique(self.by[rank, lanes[~kept]]):
                count = int(np.count_nonzero(self.by[rank, lanes[~kept]] == step))
                text = "accesses the shared memory of another block, which does not wait for it and may have ended"
                self.findings.add(Fault.BARRIER, self.instructions[step].at, text, count=count)
