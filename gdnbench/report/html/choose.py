"""Which folders a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.report.html.published import find_figures
from gdnbench.store import compares, find_run


def choose_sources(results: Path, wanted: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The folders of runs and of published figures that are named, each once.

    If none is named, the latest run that compared kernels.

    Raises:
        UnknownNameError: if there is no such run.
        UsageError: if all that is named was published.
    """
    published = {name: folder for name in wanted if (folder := find_figures(results, name))}
    runs = [find_run(results, name) for name in wanted if name not in published]
    if published and not runs:
        raise UsageError(
            "a report needs a run beside what was published", f"gdnbench report h200 {next(iter(published))}"
        )
    unique = {folder.resolve(): folder for folder in runs or [find_run(results, serves=compares)]}
    return list(unique.values()), list(published.values())
