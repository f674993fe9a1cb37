"""Special registers, the lane's place in the grid and clocks, and the forms of instructions that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gdnbench.ptx.numbers import Array, IntArray
from gdnbench.ptx.program import WARP, WIDTHS, LaunchGrid, PtxInstruction

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


_ROUNDING = frozenset({"rn", "rz", "rm", "rp"})
_WHOLE = frozenset({"rni", "rzi", "rmi", "rpi"})
_COMPARISONS = frozenset({
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    "and", "or", "xor", "ftz",
})  # fmt: skip
_SPACES = frozenset({"global", "shared", "shared__cta", "local", "const", "param", "param__entry", "param__func"})
_ORDER = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"})
_CACHING = frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "v2", "v4", "v8"})
_ATOMIC = frozenset({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "noftz"})
_ANY = frozenset({"*"})

KNOWN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("add", "sub", "fma"), _ROUNDING | {"ftz", "sat"}),
    **dict.fromkeys(("mul", "mad"), _ROUNDING | {"ftz", "sat", "lo", "hi", "wide"}),
    **dict.fromkeys(("mul24", "mad24"), frozenset({"lo", "hi"})),
    "div": _ROUNDING | {"ftz", "approx", "full"},
    **dict.fromkeys(("neg", "abs", "slct"), frozenset({"ftz"})),
    **dict.fromkeys(("min", "max"), frozenset({"ftz", "NaN"})),
    **dict.fromkeys(("sqrt", "rsqrt", "rcp"), _ROUNDING | {"ftz", "approx"}),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh"), frozenset({"ftz", "approx"})),
    "shf": frozenset({"l", "r", "wrap", "clamp"}),
    "bfind": frozenset({"shiftamt"}),
    **dict.fromkeys(("bra", "ret"), frozenset({"uni"})),
    "brx": frozenset({"idx", "uni"}),
    "cvta": frozenset({"to", "global", "shared", "local", "const"}),
    "isspacep": _SPACES,
    "cvt": _ROUNDING | _WHOLE | {"ftz", "sat", "relu"},
    **dict.fromkeys(("setp", "set"), _COMPARISONS),
    "ldu": _SPACES | _ORDER | _CACHING,
    **dict.fromkeys(("ld", "st"), _SPACES | _ORDER | _CACHING | {"shared__cluster"}),
    "mapa": frozenset({"shared__cluster"}),
    **dict.fromkeys(("atom", "red"), _SPACES | _ORDER | _ATOMIC),
    "cp": frozenset({
        "async", "ca", "cg", "shared", "shared__cta", "shared__cluster", "global", "commit_group", "wait_group",
        "wait_all", "mbarrier", "arrive", "noinc", "bulk", "bulk_group", "mbarrier__complete_tx__bytes", "read",
        "prefetch", "L2", "tensor", "2d",
    }),
    "tensormap": frozenset({
        "replace", "tile", "global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride",
        "elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "shared__cta", "b1024", "cp_fenceproxy", "global",
        "tensormap__generic", "release", "gpu", "sync", "aligned",
    }),
    **dict.fromkeys(("bar", "barrier"), frozenset({
        "sync", "arrive", "red", "popc", "and", "or", "aligned", "cta", "warp", "cluster", "wait", "acquire", "release",
        "relaxed",
    })),
    "mbarrier": frozenset({
        "init", "inval", "arrive", "expect_tx", "test_wait", "try_wait", "parity", "shared", "shared__cta",
    }) | _ORDER,
    "shfl": frozenset({"sync", "up", "down", "bfly", "idx"}),
    "vote": frozenset({"sync", "all", "any", "uni", "ballot"}),
    "match": frozenset({"sync", "all", "any"}),
    "redux": frozenset({"sync", "add", "and", "or", "xor", "min", "max"}),
    "elect": frozenset({"sync"}),
    "mma": frozenset({"sync", "aligned", "m16n8k16", "m16n8k8", "row", "col"}),
    **dict.fromkeys(("ldmatrix", "stmatrix"), frozenset({
        "sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared__cta",
    })),
    "movmatrix": frozenset({"sync", "aligned", "m8n8", "trans"}),
    "wgmma": frozenset({
        "mma_async", "fence", "commit_group", "wait_group", "sync", "aligned",
        "e4m3", "e5m2", *(f"m64n{columns}k{inner}" for columns in range(8, 257, 8) for inner in (16, 32)),
    }),
    **dict.fromkeys(("fence", "membar", "prefetch", "prefetchu", "griddepcontrol", "setmaxnreg", "createpolicy"), _ANY),
}  # fmt: skip
"""Modifiers that each instruction may have beside its types; an instruction that is not listed has none."""


def is_known(instruction: PtxInstruction) -> bool:
    """Returns whether all modifiers of an instruction are known, types and cache hints apart."""
    words = KNOWN.get(instruction.name, frozenset())
    return words is _ANY or all(
        word in words or word in WIDTHS or word.startswith(("L1__", "L2__")) for word in instruction.modifiers
    )
