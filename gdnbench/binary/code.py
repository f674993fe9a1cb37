"""Machine code as it leaves a compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """One compiled kernel.

    Attributes:
        cubin: the binary.
        symbol: the kernel's mangled name in it.
        dynamic_shared_bytes: shared memory per block that the compiler leaves to the launch, in bytes.
    """

    cubin: bytes
    symbol: str
    dynamic_shared_bytes: int = 0
