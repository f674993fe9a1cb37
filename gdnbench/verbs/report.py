"""`gdnbench report`: stored runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.errors import UsageError
from gdnbench.origin import PROFILES, RESULTS, is_folder
from gdnbench.verbs.complete import complete_runs
from gdnbench.verbs.options import ResultsOption


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Ids, starts, labels, folders, GPUs, published/NAME; the latest run.",
            autocompletion=complete_runs,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    profiles: Annotated[Path, typer.Option(help="Where profilers wrote what they read.")] = PROFILES,
    results: ResultsOption = RESULTS,
) -> None:
    """Write runs and sweeps as one HTML file, with sortable tables and charts. Needs no GPU and no network."""
    from gdnbench.verbs.html.report import check_output, choose_sources, print_written, write_report

    if profiles != PROFILES and not is_folder(profiles):
        raise UsageError(f"there is no folder {profiles}", "leave --profiles out for a report without counters")
    check_output(output)
    folders, published = choose_sources(results, runs or [])
    print_written(write_report(folders, published, output, profiles=profiles))
