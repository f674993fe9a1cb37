"""What the compiler made of a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """One variant compiled for one architecture.

    Attributes:
        arch: the target, `sm_90`.
        registers: per thread.
        shared_bytes: shared memory per block that the compiler decided on, without a launch's own.
        spill_bytes: local memory per thread: spilled registers and arrays indexed at run time; 0 if there are none.
        load_bits: width of the widest global load, 128 at best and 256 from sm_100 on; 0 where there is none.
        code_bytes: size of the cubin.
        cubin: path of the cubin in the build cache.
        symbol: mangled name of the entry in the cubin.
    """

    arch: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    load_bits: int
    code_bytes: int
    cubin: str = ""
    symbol: str = ""
