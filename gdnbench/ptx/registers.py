"""Special registers: where in the grid a lane is, and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.ptx.grid import WARP
from gdnbench.ptx.numbers import Array
from gdnbench.ptx.program import unknown

if TYPE_CHECKING:
    from gdnbench.ptx.machine import Machine

_AXES = {"x": 0, "y": 1, "z": 2}
_ALL_LANES = 0xFFFFFFFF


def special(machine: Machine, name: str) -> Array:
    """What a special register holds in the lanes that run: shape (n,), or () where all hold the same.

    Raises:
        NotInterpretedError: for one that is not known.
    """
    stem, _, axis = name.partition(".")
    read = _REGISTERS.get(stem)
    if read is None:
        raise unknown(machine.instruction)
    return np.asarray(read(machine, axis))


def _lane(machine: Machine) -> Array:
    return machine.lane[machine.lanes]


def _block(machine: Machine, axis: str) -> Array:
    return machine.block_index()[_AXES[axis]]


def _of_time(machine: Machine, _axis: str) -> int:
    """Clocks count instructions here."""
    return machine.ordering.now


def _constant(value: int) -> Callable[[Machine, str], int]:
    return lambda _machine, _axis: value


_REGISTERS: dict[str, Callable[[Machine, str], Array | int]] = {
    "%tid": lambda m, axis: m.thread[m.lanes] if axis == "x" else 0,
    "%ntid": lambda m, axis: m.grid.threads if axis == "x" else 1,
    "%ctaid": _block,
    "%clusterid": _block,
    "%nctaid": lambda m, axis: m.grid.blocks[_AXES[axis]],
    "%nclusterid": lambda m, axis: m.grid.blocks[_AXES[axis]],
    "%laneid": lambda m, _axis: _lane(m),
    "%warpid": lambda m, _axis: m.thread[m.lanes] // WARP,
    "%nwarpid": lambda m, _axis: -(-m.grid.threads // WARP),
    "%lanemask_eq": lambda m, _axis: np.left_shift(1, _lane(m)),
    "%lanemask_lt": lambda m, _axis: np.left_shift(1, _lane(m)) - 1,
    "%lanemask_le": lambda m, _axis: np.left_shift(2, _lane(m)) - 1,
    "%lanemask_gt": lambda m, _axis: _ALL_LANES & ~(np.left_shift(2, _lane(m)) - 1),
    "%lanemask_ge": lambda m, _axis: _ALL_LANES & ~(np.left_shift(1, _lane(m)) - 1),
    "%dynamic_smem_size": lambda m, _axis: m.grid.shared_bytes,
    "%total_smem_size": lambda m, _axis: m.memory.shared_bytes,
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"), _of_time),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), _constant(0)),
    # One multiprocessor, and clusters of one block: what a cluster's blocks say to each other is not known here.
    **dict.fromkeys(("%smid", "%gridid", "%cluster_ctarank", "%cluster_ctaid"), _constant(0)),
    **dict.fromkeys(("%nsmid", "%cluster_nctarank", "%cluster_nctaid"), _constant(1)),
}
