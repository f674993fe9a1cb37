"""Special registers, the lane's place in the grid and clocks, and the forms of instructions that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.ptx.numbers import Array, IntArray
from gdnbench.ptx.program import WARP, WIDTHS, PtxInstruction

if TYPE_CHECKING:
    from gdnbench.ptx.machine import Machine

_ALL_LANES = 0xFFFFFFFF


Read = Callable[["Machine", str], Array | int]
"""Reads a special register in the running lanes, shape (n,), or one number for all; the text is the axis, if any."""


def special(machine: Machine, name: str) -> Array | None:
    """Returns a special register's value, shape (n,), or () if all lanes have the same; or None if it is unknown."""
    stem, _, axis = name.partition(".")
    read = _REGISTERS.get(stem)
    return None if read is None else np.asarray(read(machine, axis))


def _block_at(machine: Machine, axis: str) -> IntArray:
    block, (x, y, _) = machine.block[machine.lanes] + machine.first_block, machine.grid.blocks
    return {"x": block % x, "y": block // x % y, "z": block // (x * y)}[axis]


def _clustered(read: Read) -> Read:
    """Counts in clusters, whose blocks lie side by side along x."""
    return lambda machine, axis: read(machine, axis) // (machine.program.cluster if axis == "x" else 1)


def _rank(machine: Machine, _axis: str) -> IntArray:
    return machine.ranks(machine.lanes)


def _lane(machine: Machine) -> IntArray:
    return machine.lane[machine.lanes]


def _blocks(machine: Machine, axis: str) -> int:
    return machine.grid.blocks["xyz".index(axis)]


_REGISTERS: dict[str, Read] = {
    "%tid": lambda m, axis: m.thread[m.lanes] if axis == "x" else 0,
    "%ntid": lambda m, axis: m.grid.threads if axis == "x" else 1,
    "%ctaid": _block_at,
    "%nctaid": _blocks,
    "%clusterid": _clustered(_block_at),
    "%nclusterid": _clustered(_blocks),
    "%cluster_ctarank": _rank,
    "%cluster_nctarank": lambda m, _axis: m.program.cluster,
    "%cluster_ctaid": lambda m, axis: _rank(m, axis) if axis == "x" else 0,
    "%cluster_nctaid": lambda m, axis: m.program.cluster if axis == "x" else 1,
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
    # Clocks count instructions.
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"), lambda m, _axis: m.ordering.now),
    # There is one multiprocessor.
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi", "%smid", "%gridid"), lambda _m, _axis: 0),
    "%nsmid": lambda _m, _axis: 1,
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
    "div": _ROUNDING | {"ftz", "approx", "full"},
    **dict.fromkeys(("neg", "abs", "slct"), frozenset({"ftz"})),
    **dict.fromkeys(("min", "max"), frozenset({"ftz", "NaN"})),
    **dict.fromkeys(("sqrt", "rsqrt", "rcp"), _ROUNDING | {"ftz", "approx"}),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh"), frozenset({"ftz", "approx"})),
    **dict.fromkeys(("mul24", "mad24"), frozenset({"lo", "hi"})),
    "shf": frozenset({"l", "r", "wrap", "clamp"}),
    "bfind": frozenset({"shiftamt"}),
    **dict.fromkeys(("bra", "ret"), frozenset({"uni"})),
    "brx": frozenset({"idx", "uni"}),
    "cvta": frozenset({"to", "global", "shared", "local", "const", "param"}),
    "isspacep": _SPACES,
    "cvt": _ROUNDING | _WHOLE | {"ftz", "sat", "relu", "satfinite"},
    **dict.fromkeys(("setp", "set"), _COMPARISONS),
    "ldu": _SPACES | _ORDER | _CACHING,
    **dict.fromkeys(("ld", "st"), _SPACES | _ORDER | _CACHING | {"shared__cluster"}),
    "mapa": frozenset({"shared__cluster"}),
    **dict.fromkeys(("atom", "red"), _SPACES | _ORDER | _ATOMIC),
    "cp": frozenset({
        "async", "ca", "cg", "shared", "shared__cta", "shared__cluster", "global", "commit_group", "wait_group",
        "wait_all", "mbarrier", "arrive", "noinc", "bulk", "bulk_group", "mbarrier__complete_tx__bytes", "read",
        "prefetch", "L2", "tensor", "multicast__cluster", "1d", "2d", "3d", "4d", "5d",
    }),
    **dict.fromkeys(("bar", "barrier"), frozenset({
        "sync", "arrive", "red", "popc", "and", "or", "aligned", "cta", "warp", "cluster", "wait", "acquire", "release",
        "relaxed",
    })),
    "mbarrier": frozenset({
        "init", "inval", "arrive", "expect_tx", "test_wait", "try_wait", "parity", "shared", "shared__cta",
        "shared__cluster",
    }) | _ORDER,
    "shfl": frozenset({"sync", "up", "down", "bfly", "idx"}),
    "vote": frozenset({"sync", "all", "any", "uni", "ballot"}),
    "match": frozenset({"sync", "all", "any"}),
    "redux": frozenset({"sync", "add", "and", "or", "xor", "min", "max"}),
    "elect": frozenset({"sync"}),
    **dict.fromkeys(("ldmatrix", "stmatrix"), frozenset({
        "sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared__cta",
    })),
    **dict.fromkeys(("mma", "movmatrix", "wgmma"), _ANY),  # whose handlers compare every word
    **dict.fromkeys(("fence", "membar", "prefetch", "prefetchu", "setmaxnreg", "createpolicy"), _ANY),
    "tcgen05": frozenset({
        "alloc", "dealloc", "relinquish_alloc_permit", "mma", "commit", "ld", "st", "wait__ld", "wait__st",
        "fence__before_thread_sync", "fence__after_thread_sync", "cta_group__1", "cta_group__2", "kind__f16", "32x32b",
        "16x64b", "16x128b", "16x256b", "sync", "aligned", "shared__cta", "shared__cluster", "mbarrier__arrive__one",
        "multicast__cluster", "kind__mxf4nvf4", "block_scale", "block16", "scale_vec__4X",
        *(f"collector__a__{use}" for use in ("fill", "use", "lastuse", "discard")),
        *(f"x{1 << power}" for power in range(8)),
    }),
    "griddepcontrol": frozenset({"wait", "launch_dependents"}),
}  # fmt: skip
"""Modifiers that each instruction may have beside its types; an instruction that is not listed has none."""


def is_known(instruction: PtxInstruction) -> bool:
    """Returns whether all modifiers of an instruction are known, types and cache hints apart."""
    words = KNOWN.get(instruction.name, frozenset())
    return words is _ANY or all(
        word in words or word in WIDTHS or word.startswith(("L1__", "L2__")) for word in instruction.modifiers
    )
