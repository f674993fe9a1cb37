"""A kernel's code: whether what is stored is of it as it is now, and what the compiler made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class CodeState(StrEnum):
    """Whether a stored time or profile is of a kernel's code as it is now, by the hash of its sources."""

    CURRENT = "current"
    CHANGED = "changed"
    UNKNOWN = "unknown"  # one of the two hashes is not known: older files have none, and not every kernel is here

    @classmethod
    def of(cls, stored: str, now: str) -> CodeState:
        """The state, from the stored and the present hash; each is empty where it is not known."""
        if not (stored and now):
            return cls.UNKNOWN
        return cls.CURRENT if stored == now else cls.CHANGED

    @classmethod
    def together(cls, states: Iterable[CodeState]) -> CodeState:
        """The state of several sources together: changed if one has changed, current if all are known to be current."""
        found = set(states)
        if cls.CHANGED in found:
            return cls.CHANGED
        return cls.CURRENT if found == {cls.CURRENT} else cls.UNKNOWN


NO_CLUSTER = (1, 1, 1)
"""Of a kernel whose blocks are launched one by one."""

UNREAD = -1
"""Of a build whose code nobody has asked to be read, the width of its loads."""


@dataclass(frozen=True)
class Build:
    """One variant compiled for one architecture.

    Attributes:
        arch: the target, `sm_90`.
        registers: per thread.
        shared_bytes: shared memory per block that the compiler decided on, without a launch's own.
        spill_bytes: local memory per thread: spilled registers and arrays indexed at run time; 0 if there are none.
        load_bits: width of the widest global load, 128 at best and 256 from sm_100 on; 0 where there is none, -1 where
            the code was not read.
        code_bytes: size of the cubin.
        cubin: path of the cubin in the build cache.
        symbol: mangled name of the entry in the cubin.
        serialized_because: why ptxas waits for each of its warpgroup products (wgmma) before the next; empty where it
            does not, or there are none.
        required_threads: per block, where the code is for no other number, as Triton's is; else 0.
        most_threads: per block, that the code is for by its `__launch_bounds__`; 0 where it has none.
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
    """The warning of a kernel whose warpgroup products ptxas serializes.

    Args:
        because: why, in ptxas's words.
        launch: the entry of the launch that is meant, of a kernel with several.
    """
    return f"ptxas serializes the wgmma{f' of {launch}' if launch else ''}: {because}"
