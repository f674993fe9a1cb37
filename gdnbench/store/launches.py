"""`launches.csv`: of cases whose call launches several functions, how long each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gdnbench.codec import convert_cells
from gdnbench.store.files import read_rows, write_table
from gdnbench.store.schema import Count, Name, NotNegative

NAME = "launches.csv"
_COLUMNS = ("case", "function", "rounds", "time_us")


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
        write_table(folder / NAME, [asdict(row) for row in rows], _COLUMNS)


def read_launches(folder: Path) -> list[LaunchRow]:
    """Reads `launches.csv`; no rows where there is no such file, as in older runs and in those without CUPTI.

    Raises:
        RunFormatError: if it is cut off or damaged.
        UnreadableError: if it is there, and cannot be read.
    """
    path = folder / NAME
    return read_rows(path, _COLUMNS, lambda cells: convert_cells(cells, LaunchRow)) if path.exists() else []
