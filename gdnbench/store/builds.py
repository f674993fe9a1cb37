"""`builds.csv`: what the compiler made of each variant, per series of workloads and architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.codec import convert_cells
from gdnbench.store.files import Row, read_rows, write_table
from gdnbench.store.info import RunInfo
from gdnbench.store.schema import MaybeName, Name

NAME = "builds.csv"
_COUNTS = ("registers", "shared_bytes", "spill_bytes", "load_bits", "code_bytes")
_LATER = ("serialized_because",)  # a column that older files lack
_COLUMNS = (
    "kernel",
    "label",
    "language",
    "series",
    "launch",
    "arch",
    *_COUNTS,
    "status",
    "reason",
    "interpreter",
    *_LATER,
)

_SERIES_IN_1 = "heads"  # what schema 1 calls the series

_CountOrUnknown = Annotated[int, Meta(ge=-1, le=2**53)]


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One variant compiled for one series of workloads and architecture; counts are -1 if it did not compile.

    Attributes:
        kernel: the kernel's name.
        label: the variant's label.
        language: `cuda` or `triton`.
        series: of the workloads, `qk4_v8`; empty where the op has one.
        launch: the entry of the launch, of a kernel with several; else empty.
        arch: target, `sm_90`.
        registers: per thread.
        shared_bytes: static shared memory per block.
        spill_bytes: local memory per thread.
        load_bits: width of the widest global load.
        code_bytes: size of the cubin.
        status: `ok` or `build-failed`.
        reason: the compiler's message, unless ok.
        interpreter: verdict of an interpreter where there is no GPU; empty where none was asked.
        serialized_because: why ptxas serializes its warpgroup products (wgmma); empty where it does not.
    """

    kernel: Name
    label: Name
    language: Name
    series: Annotated[str, Meta(max_length=500)] = ""
    launch: MaybeName = ""
    arch: Name
    registers: _CountOrUnknown = -1
    shared_bytes: _CountOrUnknown = -1
    spill_bytes: _CountOrUnknown = -1
    load_bits: _CountOrUnknown = -1
    code_bytes: _CountOrUnknown = -1
    status: Literal["ok", "build-failed"] = "ok"
    reason: str = ""
    interpreter: str = ""
    serialized_because: str = ""

    @property
    def title(self) -> str:
        """What tables call it: of a kernel with several launches, which one."""
        return f"{self.label}/{self.launch}" if self.launch else self.label


def write_builds(folder: Path, rows: Sequence[BuildRow]) -> None:
    """Writes `builds.csv`."""
    write_table(folder / NAME, [asdict(row) for row in rows], _COLUMNS)


def build_row(info: RunInfo, row: BuildRow) -> Row:
    """A build as one flat row, as the run's schema has it."""
    cells = asdict(row)
    if info.schema == 1:
        return {
            _SERIES_IN_1 if name == "series" else name: cell
            for name, cell in cells.items()
            if name not in {"launch", *_LATER}
        }
    return cells


def read_builds(folder: Path) -> list[BuildRow]:
    """Reads `builds.csv`; no rows where there is no such file.

    Raises:
        RunFormatError: if it is cut off or damaged.
        UnreadableError: if it is there, and cannot be read.
    """
    path = folder / NAME
    needed = [name for name in _COLUMNS if name not in {"series", "launch", *_LATER}]  # older: another name, or none
    return read_rows(path, needed, _row) if path.exists() else []


def _row(cells: dict[str, str]) -> BuildRow:
    for name in _COUNTS:
        if not cells[name]:
            raise ValueError(f"{name}: empty")
    if _SERIES_IN_1 in cells:
        cells = {**cells, "series": cells[_SERIES_IN_1]}
    return convert_cells(cells, BuildRow)
