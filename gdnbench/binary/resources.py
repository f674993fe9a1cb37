"""Registers, shared and local memory of a kernel, as `cuobjdump -res-usage` tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gdnbench.binary.arch import capability
from gdnbench.binary.tools import run_cuobjdump
from gdnbench.errors import MachineError

# From Hopper on the system keeps 1 KiB of every block's shared memory for itself (CUDA programming guide, "Shared
# memory" of compute capability 9.0), and ptxas counts it in each kernel that uses any. It is no choice of the kernel.
_RESERVED_SHARED_BYTES = 1024
_RESERVED_SINCE = 90


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    Attributes:
        registers: per thread.
        shared_bytes: static shared memory per block, without what the system reserves.
        stack_bytes: stack frame per thread; ptxas spills registers to it.
        local_bytes: further local memory per thread.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    local_bytes: int

    @property
    def spill_bytes(self) -> int:
        """Local memory per thread in bytes: an upper bound on what is spilled, and 0 only if nothing is.

        The cubin does not tell spilled registers from arrays that the source indexes dynamically. Both are the
        same trouble, traffic to local memory, and have the same remedy: less state per thread.
        """
        return self.stack_bytes + self.local_bytes


def read_resources(cubin: Path, symbol: str, arch: str) -> Resources:
    """The resources of one kernel.

    Args:
        cubin: the file that holds it.
        symbol: its mangled name.
        arch: what it was compiled for, `sm_90`.

    Raises:
        MachineError: if `cuobjdump` is absent, cannot read the cubin, or finds no such kernel in it.
    """
    return parse_resources(run_cuobjdump(cubin, "-res-usage"), symbol, arch)


def parse_resources(text: str, symbol: str, arch: str) -> Resources:
    """The resources of one kernel in the output of `cuobjdump -res-usage`.

    Raises:
        MachineError: if it tells of no such kernel.
    """
    usage = re.search(rf"Function {re.escape(symbol)}:\s*\n(.*)", text)
    counts = {name: int(count) for name, count in re.findall(r"(\w+):(\d+)", usage[1])} if usage else {}
    missing = {"REG", "SHARED", "STACK", "LOCAL"} - counts.keys()
    if missing:
        raise MachineError(f"cuobjdump -res-usage does not tell {', '.join(sorted(missing))} of {symbol}")
    reserved = _RESERVED_SHARED_BYTES if capability(arch) >= _RESERVED_SINCE else 0
    return Resources(
        registers=counts["REG"],
        shared_bytes=max(0, counts["SHARED"] - reserved),
        stack_bytes=counts["STACK"],
        local_bytes=counts["LOCAL"],
    )
