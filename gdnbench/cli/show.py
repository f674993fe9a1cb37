"""`gdnbench show`: a stored run's table again."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import RESULTS, Csv, Json, Results


def show(
    run: Annotated[str, typer.Argument(help="A run's id, the start of one, a folder, or a GPU's name (h200).")] = "",
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Print a stored run's table again; the latest one by default. Needs no GPU."""
    from gdnbench.report.run_output import print_run
    from gdnbench.store import find_run

    print_run(find_run(results, run), json=json, csv=csv)
