"""Special registers: the lane's place in the grid, and clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.grid import WARP, LaunchGrid
from gdnbench.ptx.numbers import Array
from gdnbench.ptx.ordering import IntArray

_AXES = {"x": 0, "y": 1, "z": 2}
_ALL_LANES = 0xFFFFFFFF


@dataclass(frozen=True)
class LanePositions:
    """Where lanes are in a launch, after `now` instructions.

    `block` and `thread`, shape (n,), are numbers in the grid and in the block; `shared_bytes` of a block are static and
    dynamic; the `cluster` blocks of a cluster lie side by side along x.
    """

    grid: LaunchGrid
    block: IntArray
    thread: IntArray
    shared_bytes: int
    cluster: int
    now: int

    @property
    def lane(self) -> IntArray:
        """Each lane's number in its warp."""
        return self.thread % WARP

    def block_at(self, axis: str) -> IntArray:
        """Returns the places of blocks along an axis of the grid."""
        x, y, _ = self.grid.blocks
        return {"x": self.block % x, "y": self.block // x % y, "z": self.block // (x * y)}[axis]

    def cluster_at(self, axis: str) -> IntArray:
        """Returns the places of the blocks' clusters along an axis of the grid."""
        return self.block_at(axis) // (self.cluster if axis == "x" else 1)

    def clusters(self, axis: str) -> int:
        """Returns the number of clusters along an axis of the grid."""
        return self.grid.blocks[_AXES[axis]] // (self.cluster if axis == "x" else 1)


def special(positions: LanePositions, name: str) -> Array | None:
    """Returns a special register's value, shape (n,), or () if all lanes have the same; or None if it is unknown."""
    stem, _, axis = name.partition(".")
    read = _REGISTERS.get(stem)
    return None if read is None else np.asarray(read(positions, axis))


def _of_time(positions: LanePositions, _axis: str) -> int:
    """Returns the instructions so far, which clocks count here."""
    return positions.now


def _constant(value: int) -> Callable[[LanePositions, str], int]:
    return lambda _positions, _axis: value


_REGISTERS: dict[str, Callable[[LanePositions, str], Array | int]] = {
    "%tid": lambda s, axis: s.thread if axis == "x" else 0,
    "%ntid": lambda s, axis: s.grid.threads if axis == "x" else 1,
    "%ctaid": LanePositions.block_at,
    "%clusterid": LanePositions.cluster_at,
    "%cluster_ctarank": lambda s, _axis: s.block_at("x") % s.cluster,
    "%cluster_nctarank": lambda s, _axis: s.cluster,
    "%cluster_ctaid": lambda s, axis: s.block_at("x") % s.cluster if axis == "x" else 0,
    "%cluster_nctaid": lambda s, axis: s.cluster if axis == "x" else 1,
    "%nctaid": lambda s, axis: s.grid.blocks[_AXES[axis]],
    "%nclusterid": LanePositions.clusters,
    "%laneid": lambda s, _axis: s.lane,
    "%warpid": lambda s, _axis: s.thread // WARP,
    "%nwarpid": lambda s, _axis: -(-s.grid.threads // WARP),
    "%lanemask_eq": lambda s, _axis: np.left_shift(1, s.lane),
    "%lanemask_lt": lambda s, _axis: np.left_shift(1, s.lane) - 1,
    "%lanemask_le": lambda s, _axis: np.left_shift(2, s.lane) - 1,
    "%lanemask_gt": lambda s, _axis: _ALL_LANES & ~(np.left_shift(2, s.lane) - 1),
    "%lanemask_ge": lambda s, _axis: _ALL_LANES & ~(np.left_shift(1, s.lane) - 1),
    "%dynamic_smem_size": lambda s, _axis: s.grid.shared_bytes,
    "%total_smem_size": lambda s, _axis: s.shared_bytes,
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"), _of_time),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), _constant(0)),
    **dict.fromkeys(("%smid", "%gridid"), _constant(0)),  # one multiprocessor
    "%nsmid": _constant(1),
}
