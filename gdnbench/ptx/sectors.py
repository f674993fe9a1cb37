"""Counts the sectors of global memory that loads and stores touch, and the fewest that would hold the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gdnbench.ptx.findings import Traffic
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import PtxInstruction
from gdnbench.ptx.segments import Access

SECTOR_BYTES = 32


@dataclass
class _Counts:
    """Counts of one instruction, named as in `Traffic`."""

    requests: int = 0
    sectors: int = 0
    least: int = 0


@dataclass
class SectorCounts:
    """The counts of loads and stores, by the number of the instruction."""

    _counts: dict[int, _Counts] = field(default_factory=dict)

    def add(self, access: Access, places: IntArray, warps: IntArray) -> None:
        """Counts an access to one tensor, from each lane's first byte in it and warp, both of shape (n,)."""
        counts = self._counts.setdefault(access.step, _Counts())
        span = int(places.max()) // SECTOR_BYTES + 2
        sectors = np.unique(warps * span + places // SECTOR_BYTES)
        bytes_at = np.unique(warps * (span * SECTOR_BYTES) + places)
        asked = np.bincount(np.searchsorted(np.unique(warps), bytes_at // (span * SECTOR_BYTES))) * access.nbytes
        counts.requests += len(asked)
        counts.sectors += len(sectors)
        counts.least += int(np.sum(-(-asked // SECTOR_BYTES)))

    def told(self, instructions: Sequence[PtxInstruction]) -> Iterator[Traffic]:
        """Yields each instruction's traffic."""
        for step, counts in self._counts.items():
            instruction = instructions[step]
            verb = "stores" if instruction.name == "st" else "loads"
            yield Traffic(instruction.at, verb, counts.requests, counts.sectors, counts.least)
