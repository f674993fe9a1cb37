"""`builds.csv`, what the compiler made of each variant, and `launches.csv`, the time of each of a case's launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gdnbench.codec import convert_cells
from gdnbench.store.files import Row, read_rows, write_table
from gdnbench.store.info import RunInfo
from gdnbench.store.schema import Count, MaybeName, Name, NotNegative

BUILDS_NAME = "builds.csv"
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
    write_table(folder / BUILDS_NAME, [asdict(row) for row in rows], _COLUMNS)


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
    path = folder / BUILDS_NAME
    needed = [name for name in _COLUMNS if name not in {"series", "launch", *_LATER}]  # older: another name, or none
    return read_rows(path, needed, _row) if path.exists() else []


def _row(cells: dict[str, str]) -> BuildRow:
    for name in _COUNTS:
        if not cells[name]:
            raise ValueError(f"{name}: empty")
    if _SERIES_IN_1 in cells:
        cells = {**cells, "series": cells[_SERIES_IN_1]}
    return convert_cells(cells, BuildRow)


LAUNCHES_NAME = "launches.csv"
_LAUNCH_COLUMNS = ("case", "function", "rounds", "time_us")


@dataclass(frozen=True, kw_only=True)
class LaunchRow:
    """One function of a case, by CUPTI.

    Attributes:
        case: the case's id.
        function: its plain name; `(fill)` and `(copy)` for what is none.
        rounds: in how many rounds it was timed.
        time_us: from its first block's start to its last block's end, the median over rounds of the round's mean,
            microseconds; the sum where a call launches it repeatedly.
    """

    case: str
    function: Name
    rounds: Count
    time_us: NotNegative


def write_launches(folder: Path, rows: Sequence[LaunchRow]) -> None:
    """Writes `launches.csv`, if there is anything to write."""
    if rows:
        write_table(folder / LAUNCHES_NAME, [asdict(row) for row in rows], _LAUNCH_COLUMNS)


def read_launches(folder: Path) -> list[LaunchRow]:
    """Reads `launches.csv`; no rows where there is no such file, as in older runs and in those without CUPTI.

    Raises:
        RunFormatError: if it is cut off or damaged.
        UnreadableError: if it is there, and cannot be read.
    """
    path = folder / LAUNCHES_NAME
    return read_rows(path, _LAUNCH_COLUMNS, lambda cells: convert_cells(cells, LaunchRow)) if path.exists() else []
