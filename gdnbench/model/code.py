"""A kernel's code: whether a stored result belongs to the present sources, and what the compiler reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class CodeState(StrEnum):
    """Whether a stored time or profile belongs to the present code of a kernel, by the hash of its sources."""

    CURRENT = "current"
    CHANGED = "changed"
    UNKNOWN = "unknown"  # a hash is missing: older files have none, and a kernel may not be in this catalog

    @classmethod
    def of(cls, stored: str, now: str) -> CodeState:
        """The state, from the stored and the present hash; an unknown hash is empty."""
        if not (stored and now):
            return cls.UNKNOWN
        return cls.CURRENT if stored == now else cls.CHANGED

    @classmethod
    def together(cls, states: Iterable[CodeState]) -> CodeState:
        """The state of several sources together: changed if one has changed, current if all are current."""
        found = set(states)
        if cls.CHANGED in found:
            return cls.CHANGED
        return cls.CURRENT if found == {cls.CURRENT} else cls.UNKNOWN


NO_CLUSTER = (1, 1, 1)
"""The cluster of a kernel that launches without clusters."""

UNREAD = -1
"""The `load_bits` of a build whose code was not read."""


@dataclass(frozen=True)
class Build:
    """One variant compiled for one architecture, `sm_90`.

    Attributes:
        registers: per thread.
        shared_bytes: shared memory per block that the compiler allocates, without a launch's dynamic shared memory.
        spill_bytes: local memory per thread: spilled registers and arrays indexed at run time.
        load_bits: width of the widest global load, at most 128 and 256 from sm_100 on; 0 where there is none, -1 where
            the code was not read.
        code_bytes: size of the cubin, whose path in the build cache is `cubin`.
        symbol: mangled name of the entry in the cubin.
        serialized_because: why ptxas serializes the warpgroup products (wgmma); empty if it does not.
        required_threads: per block, where the code runs with this number only, as Triton's does; else 0.
        most_threads: per block, by the code's `__launch_bounds__`; 0 where it has none.
        cluster: blocks of a cluster along x, y and z.
    """

    arch: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    load_bits: int
    code_bytes: int
    cubin: str = ""
    symbol: str = ""
    serialized_because: str = ""
    required_threads: int = 0
    most_threads: int = 0
    cluster: tuple[int, int, int] = NO_CLUSTER

    def __post_init__(self) -> None:
        object.__setattr__(self, "cluster", tuple(self.cluster))  # JSON has lists


def tell_serialized(because: str, launch: str = "") -> str:
    """The warning that ptxas serializes a kernel's warpgroup products.

    `because` is the reason in ptxas's words, `launch` the entry of the launch if the kernel has several.
    """
    return f"ptxas serializes the wgmma{f' of {launch}' if launch else ''}: {because}"
