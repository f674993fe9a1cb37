"""Every stored run of a folder as a source; one that is damaged harms no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdnbench.compare.figure import Figure, Source
from gdnbench.compare.measured import load_run
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.store import list_runs, read_info, readable


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A stored run.

    Attributes:
        source: its figures, and the conditions that they were measured under.
        op: the op.
        timestamp: when it began, UTC, ISO 8601.
        dirty: whether its checkout differed from its commit.
        complete: whether every case and round that was asked for is in it.
    """

    source: Source
    op: str
    timestamp: str
    dirty: bool = False
    complete: bool = True

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What it says of each kernel at each shape."""
        return self.source.figures


def load_recorded(results: Path) -> list[Recorded]:
    """Reads every run, oldest first; one that cannot be read is left out with a warning.

    Raises:
        UnknownNameError: if there are no runs.
        RunFormatError: if none can be read.
    """
    folders = list_runs(results)
    if not folders:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all, or name --out")
    runs = list(readable(folders, _load))
    if not runs:
        raise RunFormatError(f"none of the {len(folders)} runs in {results} can be read", "measure anew")
    return sorted(runs, key=lambda run: (run.timestamp, run.source.name))


def _load(folder: Path) -> Recorded:
    info, source = read_info(folder), load_run(folder)
    return Recorded(
        source=source,
        op=info.op,
        timestamp=str(info.timestamp),
        dirty=bool(info.git.get("dirty")),
        complete=info.complete,
    )
