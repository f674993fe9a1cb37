"""Every stored run of a folder as a source; one that is damaged harms no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdnbench.compare.figure import Figure, Source
from gdnbench.compare.measured import load_run
from gdnbench.errors import GdnbenchError, RunFormatError, UnknownNameError, UsageError
from gdnbench.store import list_runs, read_info


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


def load_recorded(results: Path) -> tuple[list[Recorded], list[str]]:
    """Reads every run, oldest first.

    Returns:
        The runs, and a warning for each that cannot be read.

    Raises:
        UnknownNameError: if there are no runs.
        UsageError: if none can be read.
    """
    folders = list_runs(results)
    if not folders:
        raise UnknownNameError(f"no runs in {results}", "measure one: gdnbench run --kernel all, or name --out")
    runs, warnings = [], []
    for folder in folders:
        try:
            runs.append(_load(folder))
        # A file that someone edited by hand can fail in any of these ways.
        except (GdnbenchError, ValueError, LookupError, TypeError, AttributeError, OSError) as error:
            told = error.message if isinstance(error, GdnbenchError) else f"{type(error).__name__}: {error}"
            warnings.append(f"{folder.name} is left out: {told}")
    if not runs:
        raise UsageError(f"none of the {len(folders)} runs in {results} can be read: {warnings[-1]}", "measure anew")
    return sorted(runs, key=lambda run: (run.timestamp, run.source.name)), warnings


def _load(folder: Path) -> Recorded:
    info, source = read_info(folder), load_run(folder)
    for figure in source.figures:
        if (figure.rounds_us <= 0).any() or np.isinf(figure.rounds_us).any():
            raise RunFormatError(f"{figure.label} {figure.shape} has a round that took no time, or for ever")
    return Recorded(
        source=source,
        op=info.op,
        timestamp=str(info.timestamp),
        dirty=bool(info.git.get("dirty")),
        complete=info.complete,
    )
