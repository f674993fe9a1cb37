"""Special registers: where in the grid a lane is, and clocks."""

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
    """Where lanes are.

    Attributes:
        grid: of the launch.
        block: shape (n,), the number of each lane's block in the grid.
        thread: shape (n,), its number in the block.
        shared_bytes: of a block, static and dynamic.
        cluster: blocks of a cluster, side by side along x.
        now: instructions so far.
    """

    grid: LaunchGrid
    block: IntArray
    thread: IntArray
    shared_bytes: int
    cluster: int
    now: int

    @property
    def lane(self) -> IntArray:
        """Its number in the warp."""
        return self.thread % WARP

    def block_at(self, axis: str) -> IntArray:
        """The place of the block along an axis of the grid."""
        x, y, _ = self.grid.blocks
        return {"x": self.block % x, "y": self.block // x % y, "z": self.block // (x * y)}[axis]

    def cluster_at(self, axis: str) -> IntArray:
        """Likewise of the block's cluster among the clusters."""
        return self.block_at(axis) // (self.cluster if axis == "x" else 1)

    def clusters(self, axis: str) -> int:
        """Of the grid along an axis."""
        return self.grid.blocks[_AXES[axis]] // (self.cluster if axis == "x" else 1)


def special(positions: LanePositions, name: str) -> Array | None:
    """What a special register holds: shape (n,), or () where all lanes hold the same; None if it is not known."""
    stem, _, axis = name.partition(".")
    read = _REGISTERS.get(stem)
    return None if read is None else np.asarray(read(positions, axis))


def _of_time(positions: LanePositions, _axis: str) -> int:
    """Clocks count instructions here."""
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
