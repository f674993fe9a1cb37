"""The machine code of a kernel, and how wide it loads."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gdnbench.binary.tools import run_cuobjdump

# LDG loads from global memory, LDGSTS copies from there to shared memory (cp.async), LD is a load whose address space
# the compiler could not infer. LDL, LDS and LDC read local, shared and constant memory and do not count.
_LOAD = re.compile(r"(?<![\w.])(?:LDG|LDGSTS|LD)((?:\.\w+)*)(?=\s)")

# The bulk copies of Hopper and later (cp.async.bulk, TMA) move multiples of 16 bytes; the instruction does not say how
# many, so each counts as the 128 bits that it moves at least. `.S.G` is to shared memory from global; `.G.S` stores.
_BULK_COPY = re.compile(r"(?<![\w.])(?:UBLKCP(?:\.\w+)*\.S\.G|UTMALDG)(?!\w)")
_BULK_BITS = 128

# Only whole modifiers count: `.LTC128B` is a prefetch size, not a width.
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_DEFAULT_BITS = 32


def disassemble(cubin: Path, symbol: str) -> str:
    """The SASS of one kernel, the device functions that it calls included; kept beside the cubin for the next time.

    Raises:
        MachineError: if `cuobjdump` is absent or cannot read the cubin.
    """
    # A cubin of the cache is named by its content, so what is kept beside it cannot be of another.
    kept = cubin.with_suffix(f".{hashlib.sha256(symbol.encode()).hexdigest()[:8]}.sass")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text()
    sass = run_cuobjdump(cubin, "-sass", "-fun", symbol)
    with contextlib.suppress(OSError):  # a read-only cache costs time, and nothing else
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(sass)
        Path(file.name).rename(kept)
    return sass


def widest_load_bits(sass: str) -> int:
    """Width in bits of the widest global load per thread; 0 where there is none."""
    widths = [width_bits(modifiers.split(".")) for modifiers in _LOAD.findall(sass)]
    bulk = [_BULK_BITS] if _BULK_COPY.search(sass) else []
    return max(widths + bulk, default=0)


def width_bits(modifiers: Iterable[str]) -> int:
    """Width in bits of a load or store per thread, from its opcode's modifiers."""
    told = (_WIDTHS.get(modifier) for modifier in modifiers)
    return next(filter(None, told), _DEFAULT_BITS)
