"""`builds.csv`: what the compiler made of each variant, per head layout and architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gdnbench.errors import RunFormatError
from gdnbench.store.table import read_table, write_table

NAME = "builds.csv"
_COUNTS = ("registers", "shared_bytes", "spill_bytes", "load_bits", "code_bytes")
_COLUMNS = ("kernel", "label", "language", "heads", "arch", *_COUNTS, "status", "reason", "interpreter")


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

    kernel: str
    label: str
    language: str
    heads: str
    arch: str
    registers: int = -1
    shared_bytes: int = -1
    spill_bytes: int = -1
    load_bits: int = -1
    code_bytes: int = -1
    status: str = "ok"
    reason: str = ""
    interpreter: str = ""


def write_builds(folder: Path, rows: Sequence[BuildRow]) -> None:
    """Writes `builds.csv`."""
    write_table(folder / NAME, [asdict(row) for row in rows], _COLUMNS)


def read_builds(folder: Path) -> list[BuildRow]:
    """Reads `builds.csv`; no rows where there is no such file.

    Raises:
        RunFormatError: if it is cut off or damaged.
    """
    if not (folder / NAME).is_file():
        return []
    rows = read_table(folder / NAME, _COLUMNS)
    try:
        return [BuildRow(**{**row, **{name: int(row[name]) for name in _COUNTS}}) for row in rows]  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise RunFormatError(f"{folder / NAME}: {error}", "the run is damaged; measure anew") from error
