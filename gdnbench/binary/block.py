"""How many threads a block of a cubin's kernel has, where the compiler fixed it."""

from __future__ import annotations

import re
from pathlib import Path

from gdnbench.binary.tools import run_cuobjdump

# `.reqntid` of the PTX, as `cuobjdump -elf` prints it: threads along x, y and z. Triton's kernels have it, and with
# specialised warps it is more than 32 times the warps that were asked for.
_REQUIRED = re.compile(r"EIATTR_REQNTID\s+Format:\s*EIFMT_SVAL\s+Value:\s*(0x\w+)\s+(0x\w+)\s+(0x\w+)")


def required_threads(cubin: Path) -> int | None:
    """Threads per block that the only kernel of a cubin must be launched with; None if it leaves the choice.

    Raises:
        MachineError: if `cuobjdump` is absent or cannot read the cubin.
    """
    return parse_required_threads(run_cuobjdump(cubin, "-elf"))


def parse_required_threads(text: str) -> int | None:
    """The same, from what `cuobjdump -elf` printed."""
    found = _REQUIRED.search(text)
    if found is None:
        return None
    x, y, z = (int(size, 16) for size in found.groups())
    return x * y * z
