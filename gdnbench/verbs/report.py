"""`gdnbench report`: stored runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs.complete import complete_runs
from gdnbench.verbs.options import ResultsOption


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Ids, starts, labels, folders, GPUs; the latest run.",
            autocompletion=complete_runs,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    results: ResultsOption = RESULTS,
) -> None:
    """Write runs and sweeps as one HTML file, with sortable tables and charts. Needs no GPU and no network."""
    from gdnbench.render.output import print_answer
    from gdnbench.render.table import Answer, Note
    from gdnbench.verbs.html.report import check_output, choose_runs, write_report

    check_output(output)
    write_report(choose_runs(results, runs or []), output)
    line = Note(f"{output}  ({output.stat().st_size / 1e6:.2f} MB)", whole=True)
    opened = ["python3", "-m", "webbrowser", output.absolute().as_uri()]
    print_answer(Answer(text=lambda _: [line], next=opened))
