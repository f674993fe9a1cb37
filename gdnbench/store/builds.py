"""`builds.csv`: what the compiler made of each variant, per head layout and architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.codec import convert_cells
from gdnbench.store.schema import Name
from gdnbench.store.table import read_rows, write_table

NAME = "builds.csv"
_COUNTS = ("registers", "shared_bytes", "spill_bytes", "load_bits", "code_bytes")
_COLUMNS = ("kernel", "label", "language", "heads", "arch", *_COUNTS, "status", "reason", "interpreter")

_CountOrUnknown = Annotated[int, Meta(ge=-1, le=2**53)]


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One variant compiled for one head layout and architecture; counts are -1 if it did not compile.

    Attributes:
        kernel: the kernel's name.
        label: the variant's label.
        language: `cuda` or `triton`.
        heads: head layout, `qk4_v8`.
        arch: target, `sm_90`.
        registers: per thread.
        shared_bytes: static shared memory per block.
        spill_bytes: local memory per thread.
        load_bits: width of the widest global load.
        code_bytes: size of the cubin.
        status: `ok` or `build-failed`.
        reason: the compiler's message, unless ok.
        interpreter: verdict of Triton's interpreter on the arithmetic; empty where it was not asked.
    """

    kernel: Name
    label: Name
    language: Name
    heads: Name
    arch: Name
    registers: _CountOrUnknown = -1
    shared_bytes: _CountOrUnknown = -1
    spill_bytes: _CountOrUnknown = -1
    load_bits: _CountOrUnknown = -1
    code_bytes: _CountOrUnknown = -1
    status: Literal["ok", "build-failed"] = "ok"
    reason: str = ""
    interpreter: str = ""


def write_builds(folder: Path, rows: Sequence[BuildRow]) -> None:
    """Writes `builds.csv`."""
    write_table(folder / NAME, [asdict(row) for row in rows], _COLUMNS)


def read_builds(folder: Path) -> list[BuildRow]:
    """Reads `builds.csv`; no rows where there is no such file.

    Raises:
        RunFormatError: if it is cut off or damaged.
        UnreadableError: if it is there, and cannot be read.
    """
    path = folder / NAME
    return read_rows(path, _COLUMNS, _row) if path.exists() else []


def _row(cells: dict[str, str]) -> BuildRow:
    for name in _COUNTS:
        if not cells[name]:
            raise ValueError(f"{name}: empty")
    return convert_cells(cells, BuildRow)
